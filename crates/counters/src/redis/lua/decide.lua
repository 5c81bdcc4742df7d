local clock = redis.call('TIME') local now = clock[1] * 1000000 + clock[2]
--[[ Decides a batch of requests, one after another, each of them all or nothing.

KEYS     each counter key of the batch, once. In a Cluster all lie in one slot: one hash tag.
ARGV[1]  the batch, packed little-endian ('B' u8, 'H' u16, 'd' IEEE double that holds a whole number):
           'H'      how many rules; 32768 more: tell the states, as below
           '<Bddd'  for each rule: algorithm (1 fixed_window, 2 sliding_window, 3 sliding_log,
                    4 token_bucket, 5 quota, 6 sliding_window in slots, 7 token_bucket of which
                    requests are told late), n (>= 1), period in
                    microseconds, burst (windows: not read). A quota has in place of these two where
                    the period begins that the caller is in, and the seconds that this one (times
                    2^26) and the next one last. Slots have their number, times 2, and 1 more where
                    the oldest counts whole, in place of the burst.
           '<HHBd'  for each operation, to the end: key and rule (indices from 1), flags, cost (>= 1).
                    Flags: bits 0 and 1 the action (0 charge, 1 peek, 2 refund, 3 charge whoever
                    denies, not on a log), 4 shadow, 8 the last operation of its request, 16 with
                    action 3 a debt: charged as far as the counter stays within twice the limit, where
                    its window ends as a whole within the limit, for more has no meaning there.
                    A key occurs once in a request.
Reply    '<Bddd' for each operation, in order, in one string: status, remaining, wait, reset;
         times in microseconds, as things stand after the request.
           0  does not fit (the request is denied, unless this is a shadow); wait -1: never
           1  fits (wait: of the next like it, where action 3 was charged in a denied request)
           2  the key holds another type;  3  its value is no state of ours;  4  another operation
              of this request met 2 or 3. Such a request took nothing; the others are decided.
         An error reply: no request of the batch took anything.
         Told to tell the states: after the records '<d' now and for each key, in order, its state as
         it is left: 'B' how many bytes, and these. In such a batch the burst of a window's rule is the
         start of the window in which action 3 happened: charged there if that still counts, else
         nowhere. That of a bucket's rule (7) is when it happened, and the level may pass any bound; for
         a debt it is the burst. Not on a log.

State    string 'B' 17 fixed_window   + last, count
                    18 sliding_window + last, current, previous
                    20 token_bucket   + last, level, rem, n, period; of 7 then its gaps, oldest first:
                                        when it ceased to be idle, and how long it had been, in parts
                                        of 1/n of a microsecond. A unit drains in `period` of them.
                    21 quota          + last, count, where the period ends
                    22 slots          + last, count of the slot of `last`, and of those before it,
                                        one period's and one, newest first
         list       19 sliding_log    [0] 'B' + base, total, last; then (time, total up to and with
                    this entry) in time order. Totals count on from `base`, modulo 2^53.
         A state of which nothing is left reads as a missing key. Each key lives to its reset + 1 s;
         one that lost its expiry gets it back from the first call that meets it.
Form     The common path is one loop without functions: a script makes its closures anew in each call.
         Logs, quotas, slots, gaps and products beyond 2^53 are not common and have theirs.
Test     The first line becomes `local now = tonumber(ARGV[2])`, STRETCH becomes 1000. Nothing else.
]]
local STRETCH = 1
local MAX, WRAP, FREEZE, SECOND = 9007199254740991, 9007199254740992, 1000000, 1000000
local floor, call, attempt = math.floor, redis.call, redis.pcall
local spread, pack, unpack, KEYS, batch = unpack, struct.pack, struct.unpack, KEYS, ARGV[1]

-- By key index: what is stored (packed string, table of a log, or false), the reset of what is to be
-- written, and of what was only read. Tables are made for 16 at once: growing one is dear.
local states = {nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil}
local written = {nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil}
local met = {}
-- The rule of the current operation, unpacked when another one comes.
local rule, algorithm, n, period, burst = 0, 0, 0, 0, 0

-- floor(a * b / d) and what remains; the quotient saturates. Exact for whole numbers below 2^53.
local function mul_div(a, b, d)
  if not (a <= MAX and b <= MAX) then return MAX, 0 end
  local product = a * b
  if product < WRAP then
    local r = product % d
    return (product - r) / d, r
  end
  local whole = floor(b / d)
  local q, r, part = 0, 0, b - whole * d
  if d < 35184372088832 then
    -- Horner over the base-128 limbs of a: r * 128 + limb * part < 2^8 * d, d < 2^45.
    local scale = 1
    while scale * 128 <= a do scale = scale * 128 end
    while scale >= 1 do
      local limb = floor(a / scale)
      a = a - limb * scale
      r = r * 128 + limb * part
      local carry = floor(r / d)
      q, r, scale = q * 128 + limb * whole + carry, r - carry * d, scale / 128
    end
  else
    -- Bit by bit, with no sum above d.
    local scale = 4503599627370496
    while scale >= 1 do
      q = q + q
      if r >= d - r then q, r = q + 1, r - (d - r) else r = r + r end
      if a >= scale then
        a, q = a - scale, q + whole
        if r >= d - part then q, r = q + 1, r - (d - part) else r = r + part end
      end
      scale = scale / 2
    end
  end
  if q > MAX then return MAX, 0 end
  return q, r
end

-- The time in which `level` units and `rem` parts drain: ceil((level * period + rem) / n).
local function drain_time(level, rem, n, period)
  local q, r = mul_div(level, period, n)
  local q2 = floor(rem / n)
  local r2 = rem - q2 * n
  q = q + q2
  if r > 0 and r2 > n - r then q = q + 2 elseif r > 0 or r2 > 0 then q = q + 1 end
  return q
end

-- The wait in a sliding window with `rest` of it to go: in it, in the next, or where that one ends.
local function sliding_wait(previous, current, cost, n, period, rest)
  local room = n - current - cost
  if room >= 0 then
    local overlap = mul_div(room, period, previous)
    if overlap > 0 then return rest - overlap end
  end
  room = n - cost
  if current <= room then return rest end
  local overlap = mul_div(room, period, current)
  return rest + period - overlap
end

local rules = unpack('<H', batch)
local is_telling = rules >= 32768
if is_telling then rules = rules - 32768 end
local step_log, write_log, step_quota, step_slots, step_gaps
local has_log, has_quota, has_slots, has_gaps = false, false, false, false
for i = 1, rules do
  local code = string.byte(batch, 25 * i - 22)
  if code == 3 then has_log = true elseif code > 4 then
    if code == 5 then has_quota = true elseif code == 6 then has_slots = true else has_gaps = true end
  end
end
if has_log then
  local NOT_OURS = {}

  -- Totals of a log count on modulo 2^53; no sum here passes it.
  local function add_total(total, units)
    local gap = WRAP - units
    if total >= gap then return total - gap end
    return total + units
  end

  -- Entry i of a log: its time and the total up to and with it.
  local function entry(key, i)
    local packed = call('LINDEX', key, i)
    if not packed or #packed ~= 16 then error(NOT_OURS, 0) end
    return unpack('<dd', packed)
  end

  -- The first entry from `low` on that is later than `bound` (on_time), or by which the total has grown
  -- to `bound` since `base`. Gallops, then halves: no list is read whole.
  local function first_entry(key, low, on_time, base, bound)
    local high, probe, stride = call('LLEN', key), low, 1
    while low < high do
      local time, total = entry(key, probe)
      local grown = total - base
      if grown < 0 then grown = grown + WRAP end
      if (on_time and time > bound) or (not on_time and grown >= bound) then
        high, stride = probe, nil
      else
        low = probe + 1
      end
      if stride then
        stride = stride * 2
        probe = low + stride
      end
      if not stride or probe >= high then
        stride, probe = nil, floor((low + high) / 2)
      end
    end
    return low
  end

  -- Reads a log: `live` units of it lie in the list after its `dead` first entries, `pending` ones do not
  -- yet. All of a batch happens at one time, so what it charges is one entry, written at the end.
  local function load_log(k)
    local key = KEYS[k]
    local head = attempt('LRANGE', key, 0, 1)
    if head.err then return head end
    if not head[1] then return {live = 0, pending = 0, dead = 0, base = 0, total = 0, last = 0} end
    if #head[1] ~= 25 or not head[2] or #head[2] ~= 16 then return '' end
    local form, base, total, last = unpack('<Bddd', head[1])
    local oldest = unpack('<d', head[2])
    if form ~= 19 or not (base >= 0 and base < WRAP and total >= 0 and total < WRAP)
      or not (last >= 0 and last <= MAX) then return '' end
    local log = {stored = true, pending = 0, dead = 0, base = base, total = total, last = last}
    if last - now > FREEZE then
      local i = first_entry(key, 1, true, 0, now)
      if i > 1 and entry(key, i - 1) == now then i = i - 1 end
      call('LSET', key, i, pack('<dd', now, total))
      call('LTRIM', key, 0, i)
      log.last, log.rebased, last = now, true, now
    end
    local edge = (last > now and last or now) - period
    if last <= edge then
      log.base = total
    elseif oldest <= edge then
      log.dead = first_entry(key, 1, true, 0, edge) - 1
      local _, before = entry(key, log.dead)
      log.base = before
    end
    log.live = log.total - log.base
    if log.live < 0 then log.live = log.live + WRAP end
    return log
  end

  -- Gives `back` units of the list itself back, from its newest entry on.
  local function refund_list(k, log, back)
    if back >= log.live then
      log.live, log.dead = 0, 0
      return
    end
    local key = KEYS[k]
    local left = log.live - back
    local i = first_entry(key, log.dead + 1, false, log.base, left)
    log.live = left
    log.total = add_total(log.base, left)
    log.last = entry(key, i)
    call('LSET', key, i, pack('<dd', log.last, log.total))
    call('LTRIM', key, 0, i)
  end

  local function step(k, action, cost, is_doing)
    local log = states[k]
    if not log then
      log = load_log(k)
      states[k] = log
    end
    if not log.live then return log.err and 2 or 3, 0, 0, 0 end
    local at = (log.live > 0 and log.last > now) and log.last or now
    local sum = log.live + log.pending
    local room = n - sum
    local fits, wait = action == 2 or cost <= room, 0
    if not fits then
      local need = cost - room
      if cost > n then
        wait = -1
      elseif need > log.live then
        wait = period + at - now
      else
        local i = first_entry(KEYS[k], log.dead + 1, false, log.base, need)
        wait = entry(KEYS[k], i) + period - now
      end
    end
    local is_written = log.rebased
    if is_doing and fits and action ~= 1 then
      if action == 0 then
        log.pending, is_written = log.pending + cost, true
      elseif sum > 0 then
        is_written = true
        local pending = log.pending
        log.pending = cost < pending and pending - cost or 0
        if cost > pending then refund_list(k, log, cost - pending) end
      end
    end
    local reset = 0
    if log.pending > 0 then
      reset = period + at - now
    elseif log.live > 0 then
      reset = log.last + period - now
    end
    room = n - log.live - log.pending
    if is_written then written[k] = reset elseif log.stored then met[k] = reset end
    return fits and 1 or 0, room > 0 and room or 0, wait, reset
  end

  -- Returns whether there is still a log to keep.
  write_log = function(k, log)
    local key = KEYS[k]
    if log.live == 0 then
      if log.stored then call('DEL', key) end
      if log.pending == 0 then return false end
      call('RPUSH', key, pack('<Bddd', 19, 0, log.pending, now), pack('<dd', now, log.pending))
    else
      local at = log.last > now and log.last or now
      if log.pending > 0 then
        local total = add_total(log.total, log.pending)
        if log.last == at then
          call('LSET', key, -1, pack('<dd', at, total))
        else
          call('RPUSH', key, pack('<dd', at, total))
        end
        log.total, log.last = total, at
      end
      if log.dead > 0 then call('LTRIM', key, log.dead, -1) end
      call('LSET', key, 0, pack('<Bddd', 19, log.base, log.total, log.last))
    end
    return true
  end

  -- An entry that is none of ours fails its request alone; an error of the store fails the call.
  local function guarded(is_done, status, remaining, wait, reset)
    if is_done then return status, remaining, wait, reset end
    if status == NOT_OURS then return 3, 0, 0, 0 end
    error(status, 0)
  end

  step_log = function(k, action, cost, is_doing)
    return guarded(pcall(step, k, action, cost, is_doing))
  end
end

if has_quota then
  -- The end of the period that holds `time`. The caller's clock may be seconds or more off: the period
  -- is found by the store's, exactly while the two are less than a neighbouring period apart, and by
  -- the lengths of those neighbours beyond. A count stays in the period in which it was begun, whose
  -- end is stored: so a rule whose periods lie elsewhere (another zone) holds from the next one on.
  local function end_at(time)
    local length = floor(burst / 67108864)
    local following = (burst - length * 67108864) * SECOND
    length = length * SECOND
    if time < period then return period - floor((period - 1 - time) / length) * length end
    local stop = period + length
    if time < stop then return stop end
    return stop + (floor((time - stop) / following) + 1) * following
  end

  step_quota = function(k, action, cost, is_doing, is_taking, is_denied, is_debt)
    local state = states[k]
    if state == nil then
      state = attempt('GET', KEYS[k])
      states[k] = state
    end
    local at, skew, taken, stop, is_written = now, 0, 0, false, false
    if state then
      local form, last, count0, stop0
      if #state == 25 then form, last, count0, stop0 = unpack('<Bddd', state) end
      if form ~= 21 then return state.err and 2 or 3, 0, 0, 0 end
      if count0 > 0 then
        if last - now > FREEZE then
          -- A clock far behind is taken over: what was taken counts in the period of that clock.
          taken, is_written = count0, true
        elseif last > now then
          at, skew, taken, stop = last, last - now, count0, stop0
        elseif now < stop0 then
          taken, stop = count0, stop0
        end
      end
    end
    if not stop then stop = end_at(at) end
    local reset = stop - at + skew
    local status, wait = 1, 0
    if cost > n - taken and action ~= 2 then status, wait = 0, cost > n and -1 or reset end
    if action == 3 then
      if is_taking then
        if is_debt and taken + cost > n then cost = n > taken and n - taken or 0 end
        taken, is_written = taken + cost, true
        if taken > MAX then taken = MAX end
      end
      if cost > n then
        wait = -1
      elseif cost > n - taken and (is_denied or status == 0) then
        wait = reset
      end
    elseif status == 1 and is_doing then
      if action == 0 then
        taken, is_written = taken + cost, true
      elseif action == 2 and taken > 0 then
        taken, is_written = taken > cost and taken - cost or 0, true
      end
    end
    local remaining = n - taken
    if not (reset >= 0 and reset <= MAX and remaining < WRAP) then return 3, 0, 0, 0 end
    if is_written then
      states[k] = pack('<Bddd', 21, at, taken, stop)
      written[k] = reset
    elseif state then
      met[k] = reset
    end
    return status, remaining > 0 and remaining or 0, wait, reset
  end
end

if has_slots then
  -- Where a slot of the window that begins at `base` begins.
  local function begin_of(base, slot, slots)
    return base + floor((slot * period + slots - 1) / slots)
  end

  -- The wait, from slot to slot: the oldest of each one's window is the next younger one. `sums` has
  -- the sum of the newest counts.
  local function slots_wait(counts, sums, slots, is_whole, cost, base, slot, at)
    local room = n - cost
    for step = 0, slots do
      local age = slots - step
      local left, oldest = room - sums[age], counts[age + 1]
      if left >= 0 then
        local first = begin_of(base, slot + step, slots)
        if oldest <= left then return first - at end
        if not is_whole then
          local last = begin_of(base, slot + step + 1, slots)
          local overlap = mul_div(left, last - first, oldest)
          if overlap > 0 then return last - overlap - at end
        end
      end
    end
    return begin_of(base, slot + slots + 1, slots) - at
  end

  step_slots = function(k, action, cost, is_doing, is_taking, is_denied)
    local state = states[k]
    if state == nil then
      state = attempt('GET', KEYS[k])
      states[k] = state
    end
    local is_whole = burst % 2 == 1
    local slots = (burst - burst % 2) / 2
    local format = '<Bd' .. string.rep('d', slots + 1)
    local at, skew, is_written, held = now, 0, false, nil
    if state then
      if #state ~= 17 + 8 * slots then return state.err and 2 or 3, 0, 0, 0 end
      held = {unpack(format, state)}
      if held[1] ~= 22 or not (held[2] >= 0 and held[2] <= MAX) then return 3, 0, 0, 0 end
      local last = held[2]
      if last - now > FREEZE then is_written = true elseif last > now then at, skew = last, last - now end
    end
    local base = at - at % period
    local slot = floor((at - base) * slots / period)
    -- The counts as seen from this slot.
    local counts, has_any = {}, false
    local moved = slots + 1
    if held then
      local last = is_written and at or held[2]
      local before = last % period
      moved = (base - last + before) / period * slots + slot - floor(before * slots / period)
    end
    for age = 0, slots do
      local units = age >= moved and held[3 + age - moved] or 0
      if not (units >= 0 and units < WRAP) then return 3, 0, 0, 0 end
      counts[age + 1], has_any = units, has_any or units > 0
    end
    if not has_any then
      at, skew, is_written = now, 0, false
      base = at - at % period
      slot = floor((at - base) * slots / period)
    end
    local sums, sum = {[0] = 0}, 0
    for age = 1, slots do
      sum = sum + counts[age]
      sums[age] = sum
    end
    local tail = counts[slots + 1]
    if not is_whole and tail > 0 then
      local first, last = begin_of(base, slot, slots), begin_of(base, slot + 1, slots)
      local weight, part = mul_div(counts[slots + 1], last - at, last - first)
      if part > 0 then weight = weight + 1 end
      tail = weight
    end
    local taken = sum + tail
    local status, is_changed = 1, false
    if action ~= 2 and cost > n - taken then status = 0 end
    local before = counts[1]
    if (action == 3 and is_taking) or (action == 0 and status == 1 and is_doing) then
      counts[1], is_changed = before + cost, true
      if counts[1] > MAX then counts[1] = MAX end
    elseif action == 2 and is_doing and has_any then
      counts[1], is_changed = before > cost and before - cost or 0, true
    end
    local wait = 0
    if is_changed then
      -- Anew, for a sum beyond 2^53 that comes back is not what it was.
      sum = 0
      for age = 1, slots do
        sum = sum + counts[age]
        sums[age] = sum
      end
      taken = sum + tail
    end
    if status == 0 or (action == 3 and is_denied and cost > n - taken) then
      wait = -1
      if cost <= n then
        wait = slots_wait(counts, sums, slots, is_whole, cost, base, slot, at) + skew
      end
    end
    local reset = skew
    for age = 0, slots do
      if counts[age + 1] > 0 then
        reset = begin_of(base, slot - age + slots + 1, slots) - at + skew
        break
      end
    end
    local remaining = n - taken
    if is_written or is_changed then
      states[k] = pack(format, 22, at, spread(counts))
      written[k] = reset
    elseif state then
      met[k] = reset
    end
    return status, remaining > 0 and remaining or 0, wait, reset
  end
end

if has_gaps then
  -- So long, and so many, are kept: nodes tell what came in the last half second.
  local KEPT, MOST_GAPS, MOST_IDLE = 600000, 12, 4503599627370496

  -- Gaps as they are stored, as a flat list of ends and lengths; nothing where these are not ours.
  local function listed(tail)
    local gaps = {unpack('<' .. string.rep('d', #tail / 8), tail)}
    gaps[#gaps] = nil
    for g = 1, #gaps do
      if not (gaps[g] >= 0 and gaps[g] <= MAX) then return end
    end
    return gaps
  end

  -- What is left of the gaps, and how many parts of the cost they have taken, of what came then.
  local function fill(gaps, cost, since)
    local left, need, taken = {}, cost * period, 0
    local function leave(stop, idle)
      if idle > 0 then left[#left + 1], left[#left + 2] = stop, idle end
    end
    for g = 1, #gaps, 2 do
      local stop, idle, open = gaps[g], gaps[g + 1], 0
      if stop > since then open = n * (stop - since) end
      if open > idle then open = idle end
      local take = need - taken
      if take > open then take = open end
      taken = taken + take
      if open > 0 then leave(since, idle - open) else leave(stop, idle) end
      leave(stop, open - take)
    end
    return left, taken
  end

  -- The gaps as they are to be stored: not the old ones, and the longest of the others.
  local function packed(gaps, at)
    local kept = {}
    for g = 1, #gaps, 2 do
      if gaps[g] > at - KEPT then kept[#kept + 1], kept[#kept + 2] = gaps[g], gaps[g + 1] end
    end
    while #kept > 2 * MOST_GAPS do
      local least = 2
      for g = 4, #kept, 2 do
        if kept[g] < kept[least] then least = g end
      end
      table.remove(kept, least)
      table.remove(kept, least - 1)
    end
    return pack('<' .. string.rep('d', #kept), spread(kept))
  end

  -- The stored gaps with one more, that ends now. They are looked through only where they are too many,
  -- or where the bucket was idle at its last write too, so that the last one may go on.
  local function with_gap(tail, idle, rate, last, was_idle)
    if idle > MOST_IDLE then idle = MOST_IDLE end
    if last <= now - KEPT then
      local most = rate * KEPT
      return pack('<dd', now, idle < most and idle or most)
    end
    if not was_idle and #tail < 16 * MOST_GAPS then return tail .. pack('<dd', now, idle) end
    local gaps = listed(tail)
    if not gaps then return end
    local stop = #gaps
    if stop > 0 and rate * (now - gaps[stop - 1]) == idle then
      idle, stop = idle + gaps[stop], stop - 2
      if idle > MOST_IDLE then idle = MOST_IDLE end
    end
    gaps[stop + 1], gaps[stop + 2] = now, idle
    return packed(gaps, now)
  end

  step_gaps = function(k, action, cost, is_doing, is_taking, is_denied, is_debt)
    local state = states[k]
    if state == nil then
      state = attempt('GET', KEYS[k])
      states[k] = state
    end
    local at, skew, level, rem, is_written, tail = now, 0, 0, 0, false, nil
    if not state then
      tail = with_gap('', MAX, n, 0, true)
    else
      local form, last, n0, period0
      if not state.err and #state >= 41 and #state % 16 == 9 then
        form, last, level, rem, n0, period0 = unpack('<Bddddd', state)
      end
      if form ~= 20 or not (last >= 0 and last <= MAX and level >= 0 and level <= MAX and n0 >= 1
        and n0 <= MAX and period0 >= 1 and period0 <= MAX and rem >= 0 and rem < period0) then
        return state.err and 2 or 3, 0, 0, 0
      end
      tail = string.sub(state, 42)
      if last < now then
        local was_idle = level == 0 and rem == 0
        local drained, part = mul_div(n0, now - last, period0)
        level, rem = level - drained, rem - part
        if rem < 0 then level, rem = level - 1, rem + period0 end
        if level < 0 then
          tail = with_gap(tail, -level * period0 - rem, n0, last, was_idle)
          level, rem = 0, 0
        end
      elseif last - now > FREEZE then
        tail, is_written = '', true
      else
        at, skew = last, last - now
      end
      if tail and (n0 ~= n or period0 ~= period) then
        is_written = true
        rem = mul_div(rem, period, period0)
        local gaps = listed(tail)
        if gaps then
          for g = 2, #gaps, 2 do gaps[g] = mul_div(gaps[g], n, n0) end
          tail = packed(gaps, at)
        else
          tail = nil
        end
      end
      if not tail then return 3, 0, 0, 0 end
      if level == 0 and rem == 0 then at, skew, is_written = now, 0, false end
    end
    local status, remaining, wait = 1, burst - level, 0
    if rem > 0 then remaining = remaining - 1 end
    if action == 3 and is_telling and not is_debt then
      local gaps, taken = listed(tail), 0
      if not gaps then return 3, 0, 0, 0 end
      gaps, taken = fill(gaps, cost, burst < at and burst or at)
      tail = packed(gaps, at)
      local part = taken % period
      level, rem, is_written = level + cost - (taken - part) / period, rem - part, true
      if rem < 0 then level, rem = level - 1, rem + period end
      if level > MAX then level = MAX end
      remaining = 0
    else
      if action ~= 2 and cost > remaining then status = 0 end
      if action == 3 and is_taking then
        local most = burst + burst < MAX and burst + burst or MAX
        if level + cost < most then level = level + cost elseif level < most then level, rem = most, 0 end
        is_written = true
      elseif action == 0 and status == 1 and is_doing then
        level, is_written = level + cost, true
      elseif action == 2 and is_doing and (level > 0 or rem > 0) then
        level, is_written = level - cost, true
        if level < 0 then level, rem = 0, 0 end
      end
      remaining = burst - level
      if rem > 0 then remaining = remaining - 1 end
      if status == 0 or (action == 3 and is_denied and cost > remaining) then
        wait = -1
        if cost <= burst then wait = drain_time(level - (burst - cost), rem, n, period) + skew end
      end
    end
    local reset = drain_time(level, rem, n, period) + skew
    if reset > MAX then reset = MAX end
    if wait > MAX then wait = MAX end
    if is_written then
      states[k] = pack('<Bddddd', 20, at, level, rem, n, period) .. tail
      written[k] = reset
    elseif state then
      met[k] = reset
    end
    return status, remaining > 0 and remaining or 0, wait, reset
  end
end

local position, size, count = 3 + 25 * rules, #batch, 0
local out = {nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil}

while position <= size do
  -- A request of one operation is done at once. One of several is looked at first, and then gone
  -- through again and done, if nothing denies it; if something does, only what is charged whoever denies.
  local start, first = position, count
  local is_doing, is_taking, has_anyway = nil, false, false
  local is_denied, is_failed, is_over = false, false, false
  repeat
    local k, r, flags, cost
    k, r, flags, cost, position = unpack('<HHBd', batch, position)
    if is_doing == nil then is_doing, is_taking = flags >= 8, flags >= 8 end
    if r ~= rule then
      rule, algorithm, n, period, burst = r, unpack('<Bddd', batch, 25 * r - 22)
    end
    local action = flags % 4
    if action == 3 then has_anyway = true end
    local status, remaining, wait, reset = 3, 0, 0, 0
    if algorithm == 3 then
      status, remaining, wait, reset = step_log(k, action % 3, cost, is_doing)
    elseif algorithm > 4 then
      local step = algorithm == 5 and step_quota or algorithm == 6 and step_slots or step_gaps
      status, remaining, wait, reset = step(k, action, cost, is_doing, is_taking, is_denied, flags >= 16)
    else
      local state = states[k]
      if state == nil then
        state = attempt('GET', KEYS[k])
        states[k] = state
      end
      local at, skew, is_written, is_ours = now, 0, false, true

      if algorithm == 4 then
        local level, rem = 0, 0
        if state then
          local form, last, n0, period0
          if #state == 41 or (#state > 41 and #state % 16 == 9) then
            form, last, level, rem, n0, period0 = unpack('<Bddddd', state)
          end
          if form ~= 20 then
            is_ours = false
          else
            if last < now then
              local drained = n0 * (now - last)
              local part = drained % period0
              if drained < WRAP then
                drained = (drained - part) / period0
              else
                drained, part = mul_div(n0, now - last, period0)
              end
              level, rem = level - drained, rem - part
              if rem < 0 then level, rem = level - 1, rem + period0 end
              if level < 0 then level, rem = 0, 0 end
            elseif last - now > FREEZE then
              is_written = true
            else
              at, skew = last, last - now
            end
            if n0 ~= n or period0 ~= period then
              is_written = true
              if period0 ~= period then rem = mul_div(rem, period, period0) end
            end
            if level == 0 and rem == 0 then at, skew, is_written = now, 0, false end
          end
        end
        remaining = burst - level
        if rem > 0 then remaining = remaining - 1 end
        if action == 3 then
          if cost <= remaining then status = 1 else status = 0 end
          if is_taking then
            local most = burst + burst < MAX and burst + burst or MAX
            if level + cost < most then level = level + cost elseif level < most then level, rem = most, 0 end
            remaining, is_written = burst - level, true
            if rem > 0 then remaining = remaining - 1 end
          end
          if cost > burst then
            wait = -1
          elseif cost > remaining and (is_denied or status == 0) then
            wait = drain_time(level - (burst - cost), rem, n, period) + skew
          end
        elseif action == 2 or cost <= remaining then
          status = 1
          if is_doing and action == 0 then
            level, remaining, is_written = level + cost, remaining - cost, true
          elseif is_doing and action == 2 and (level > 0 or rem > 0) then
            level, is_written = level - cost, true
            if level < 0 then level, rem = 0, 0 end
            remaining = burst - level
            if rem > 0 then remaining = remaining - 1 end
          end
        else
          status, wait = 0, -1
          if cost <= burst then wait = drain_time(level - (burst - cost), rem, n, period) + skew end
        end
        reset = level * period + rem
        local part = reset % n
        if reset < WRAP then
          reset = (reset - part) / n + skew
          if part > 0 then reset = reset + 1 end
        else
          reset = drain_time(level, rem, n, period) + skew
        end
        if is_written and is_ours then
          states[k] = pack('<Bddddd', 20, at, level, rem, n, period)
        end

      elseif algorithm == 1 then
        local taken = 0
        if state then
          local form, last, count0
          if #state == 17 then form, last, count0 = unpack('<Bdd', state) end
          if form ~= 17 then
            is_ours = false
          elseif count0 > 0 then
            if last > now then
              taken = count0
              if last - now > FREEZE then is_written = true else at, skew = last, last - now end
            elseif now - now % period <= last then
              taken = count0
            end
          end
        end
        reset = period - at % period + skew
        if action == 3 then
          if cost <= n - taken then status = 1 else status = 0 end
          if is_taking and not (is_telling and burst < at - at % period) then
            if flags >= 16 and taken + cost > n then cost = n > taken and n - taken or 0 end
            taken, is_written = taken + cost, true
            if taken > MAX then taken = MAX end
          end
          if cost > n then
            wait = -1
          elseif cost > n - taken and (is_denied or status == 0) then
            wait = reset
          end
        elseif action == 2 or cost <= n - taken then
          status = 1
          if is_doing and action == 0 then
            taken, is_written = taken + cost, true
          elseif is_doing and action == 2 and taken > 0 then
            taken, is_written = taken > cost and taken - cost or 0, true
          end
        else
          status, wait = 0, cost > n and -1 or reset
        end
        remaining = n - taken
        if is_written and is_ours then states[k] = pack('<Bdd', 17, at, taken) end

      else
        local previous, current = 0, 0
        if state then
          local form, last, cur, prev
          if #state == 25 then form, last, cur, prev = unpack('<Bddd', state) end
          if form ~= 18 then
            is_ours = false
          elseif last > now then
            previous, current = prev, cur
            if last - now > FREEZE then is_written = true else at, skew = last, last - now end
          else
            local moved = (now - now % period) - (last - last % period)
            if moved == 0 then previous, current = prev, cur elseif moved == period then previous = cur end
          end
          if previous == 0 and current == 0 then at, skew, is_written = now, 0, false end
        end
        -- The last window still counts with the part of it that the trailing period covers.
        local rest = period - at % period
        local weight = previous * rest
        local part = weight % period
        if weight < WRAP then
          weight = (weight - part) / period
        else
          weight, part = mul_div(previous, rest, period)
        end
        if part > 0 then weight = weight + 1 end
        if action == 3 then
          if cost <= n - current - weight then status = 1 else status = 0 end
          if is_taking and not (is_telling and burst < at - at % period) then
            if flags >= 16 and current + cost > n + n then cost = n + n > current and n + n - current or 0 end
            current, is_written = current + cost, true
            if current > MAX then current = MAX end
          elseif is_taking and burst == at - at % period - period then
            if flags >= 16 and previous + cost > n + n then cost = n + n > previous and n + n - previous or 0 end
            previous, is_written = previous + cost, true
            if previous > MAX then previous = MAX end
          end
          if cost > n then
            wait = -1
          elseif cost > n - current - weight and (is_denied or status == 0) then
            wait = sliding_wait(previous, current, cost, n, period, rest) + skew
          end
        elseif action == 2 or cost <= n - current - weight then
          status = 1
          if is_doing and action == 0 then
            current, is_written = current + cost, true
          elseif is_doing and action == 2 and (previous > 0 or current > 0) then
            current, is_written = current > cost and current - cost or 0, true
          end
        else
          status, wait = 0, -1
          if cost <= n then wait = sliding_wait(previous, current, cost, n, period, rest) + skew end
        end
        reset = skew
        if current > 0 then reset = rest + period + skew elseif previous > 0 then reset = rest + skew end
        remaining = n - current - weight
        if is_written and is_ours then states[k] = pack('<Bddd', 18, at, current, previous) end
      end

      if not is_ours or not (reset >= 0 and wait >= -1 and remaining < WRAP) then
        states[k] = state
        status, remaining, wait, reset = state.err and 2 or 3, 0, 0, 0
      else
        if reset > MAX then reset = MAX end
        if wait > MAX then wait = MAX end
        if remaining < 0 then remaining = 0 end
        if is_written then written[k] = reset elseif state then met[k] = reset end
      end
    end

    local o = 4 * count
    count = count + 1
    out[o + 1], out[o + 2], out[o + 3], out[o + 4] = status, remaining, wait, reset
    if status > 1 then is_failed = true elseif status == 0 and flags % 8 < 4 then is_denied = true end
    if flags >= 8 then
      if is_taking or is_failed or (is_denied and not has_anyway) then
        is_over = true
      else
        is_doing, is_taking, position, count = not is_denied, true, start, first
      end
    end
  until is_over
  if is_failed then
    for o = 4 * first, 4 * count - 4, 4 do
      if out[o + 1] < 2 then out[o + 1], out[o + 2], out[o + 3], out[o + 4] = 4, 0, 0, 0 end
    end
  end
end

for k, reset in pairs(written) do
  local state, life = states[k], reset + SECOND
  if life > MAX then life = MAX end
  local px = (life - life % 1000) / 1000
  if life % 1000 > 0 then px = px + 1 end
  if not state.live then
    call('SET', KEYS[k], state, 'PX', px * STRETCH)
  elseif write_log(k, state) then
    call('PEXPIRE', KEYS[k], px * STRETCH)
  end
end
for k, reset in pairs(met) do
  if not written[k] and call('PTTL', KEYS[k]) == -1 then
    local life = reset + SECOND
    if life > MAX then life = MAX end
    call('PEXPIRE', KEYS[k], -floor(-life / 1000) * STRETCH)
  end
end

-- At most 1,000 records a piece: a call of Lua takes no more than 8,000 values.
local pieces = {}
for from = 1, count, 1000 do
  local to = from + 999 < count and from + 999 or count
  pieces[#pieces + 1] = pack('<' .. string.rep('Bddd', to - from + 1), spread(out, 4 * from - 3, 4 * to))
end
if is_telling then
  pieces[#pieces + 1] = pack('<d', now)
  for k = 1, #KEYS do
    local state = type(states[k]) == 'string' and states[k] or ''
    -- What is no state of ours is told as one that nobody knows.
    if #state > 255 or type(states[k]) == 'table' then state = '?' end
    pieces[#pieces + 1] = pack('<B', #state) .. state
  end
end
return table.concat(pieces)
