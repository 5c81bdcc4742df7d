local clock = redis.call('TIME') local now = clock[1] * 1000000 + clock[2]
--[[ Decides a batch of requests, one after another, each of them all or nothing.

KEYS     each counter key of the batch, once. In a Cluster all lie in one slot: one hash tag.
ARGV[1]  the batch, packed little-endian ('B' u8, 'H' u16, 'd' IEEE double that holds a whole number):
           'H'      how many rules
           '<Bddd'  for each rule: algorithm (1 fixed_window, 2 sliding_window, 3 sliding_log,
                    4 token_bucket), n (>= 1), period in microseconds, burst (windows: not read)
           '<HHBd'  for each operation, to the end: key and rule (indices from 1), flags, cost (>= 1).
                    Flags: bits 0 and 1 the action (0 charge, 1 peek, 2 refund), 4 shadow,
                    8 the last operation of its request. A key occurs once in a request.
Reply    '<Bddd' for each operation, in order, in one string: status, remaining, wait, reset;
         times in microseconds, as things stand after the request.
           0  does not fit (the request is denied, unless this is a shadow); wait -1: never
           1  fits
           2  the key holds another type;  3  its value is no state of ours;  4  another operation
              of this request met 2 or 3. Such a request took nothing; the others are decided.
         An error reply: no request of the batch took anything.

State    string 'B' 17 fixed_window   + last, count
                    18 sliding_window + last, current, previous
                    20 token_bucket   + last, level, rem, n, period
         list       19 sliding_log    [0] 'B' + base, total, last; then (time, total up to and with
                    this entry) in time order. Totals count on from `base`, modulo 2^53.
         A state of which nothing is left reads as a missing key. Each key lives to its reset + 1 s;
         one that lost its expiry gets it back from the first call that meets it.
Test     The first line becomes `local now = tonumber(ARGV[2])`, STRETCH becomes 1000. Nothing else.
]]
local STRETCH = 1
local MAX, WRAP, FREEZE, SECOND = 9007199254740991, 9007199254740992, 1000000, 1000000
local NOT_OURS = {}
local call, attempt, floor, ceil = redis.call, redis.pcall, math.floor, math.ceil
local pack, unpack, KEYS = struct.pack, struct.unpack, KEYS
local batch = ARGV[1]
-- By key index: what is stored (packed string, table of a log, or false), the reset of what has to be
-- written, and the reset of what was only read.
local states, written, met = {}, {}, {}

-- floor(a * b / d) and what remains; the quotient saturates. Exact for whole numbers below 2^53.
local function mul_div(a, b, d)
  local product = a * b
  if product < WRAP then
    local q = floor(product / d)
    return q, product - q * d
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
  local product = level * period + rem
  if product < WRAP then return ceil(product / n) end
  local q, r = mul_div(level, period, n)
  local q2 = floor(rem / n)
  local r2 = rem - q2 * n
  q = q + q2
  if r > 0 and r2 > n - r then q = q + 2 elseif r > 0 or r2 > 0 then q = q + 1 end
  return q
end

local function said(time)
  if time > MAX then return MAX end
  return time
end

-- The rule of the current operation, unpacked when another one comes.
local rule, algorithm, n, period, burst = 0, 0, 0, 0, 0

-- The step_* functions decide one operation and, if it fits and `commit` is given, do it. They return
-- what the reply says: status, remaining, wait, reset.

local function step_fixed(k, state, action, cost, commit)
  local count, at, skew, is_written = 0, now, 0, false
  if state then
    if #state ~= 17 then return state.err and 2 or 3, 0, 0, 0 end
    local form, last, taken = unpack('<Bdd', state)
    if form ~= 17 or not (last >= 0 and last <= MAX and taken >= 0 and taken <= MAX) then
      return 3, 0, 0, 0
    end
    if taken > 0 then
      if last > now then
        count = taken
        if last - now > FREEZE then is_written = true else at, skew = last, last - now end
      elseif now - now % period <= last then
        count = taken
      end
    end
  end
  local reset = said(period - at % period + skew)
  local fits, wait = action == 2 or cost <= n - count, 0
  if not fits then
    wait = cost > n and -1 or reset
  elseif commit and action ~= 1 then
    if action == 0 then
      count, is_written = count + cost, true
    elseif count > 0 then
      count, is_written = count > cost and count - cost or 0, true
    end
  end
  if is_written then
    states[k], written[k] = pack('<Bdd', 17, at, count), reset
  elseif state then
    met[k] = reset
  end
  return fits and 1 or 0, count < n and n - count or 0, wait, reset
end

-- How much of `previous` still counts with `rest` of the window to go: rounded up.
local function weigh(previous, rest)
  local product = previous * rest
  if product < WRAP then return ceil(product / period) end
  local q, r = mul_div(previous, rest, period)
  return r > 0 and q + 1 or q
end

-- The wait from `rest` before the window's end: in this window, in the next, or where that one ends.
local function sliding_wait(previous, current, cost, rest)
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

local function step_sliding(k, state, action, cost, commit)
  local previous, current, at, skew, is_written = 0, 0, now, 0, false
  if state then
    if #state ~= 25 then return state.err and 2 or 3, 0, 0, 0 end
    local form, last, cur, prev = unpack('<Bddd', state)
    if form ~= 18 or not (last >= 0 and last <= MAX and cur >= 0 and cur <= MAX
      and prev >= 0 and prev <= MAX) then return 3, 0, 0, 0 end
    if last > now then
      previous, current = prev, cur
      if last - now > FREEZE then is_written = true else at, skew = last, last - now end
    else
      local windows = floor(now / period) - floor(last / period)
      if windows == 0 then
        previous, current = prev, cur
      elseif windows == 1 then
        previous = cur
      end
    end
    if previous == 0 and current == 0 then at, skew, is_written = now, 0, false end
  end
  local rest = period - at % period
  local weight = previous > 0 and weigh(previous, rest) or 0
  local fits, wait = action == 2 or cost <= n - current - weight, 0
  if not fits then
    wait = cost > n and -1 or said(sliding_wait(previous, current, cost, rest) + skew)
  elseif commit and action ~= 1 then
    if action == 0 then
      current, is_written = current + cost, true
    elseif previous > 0 or current > 0 then
      current, is_written = current > cost and current - cost or 0, true
    end
  end
  local reset = skew
  if current > 0 then
    reset = said(rest + period + skew)
  elseif previous > 0 then
    reset = said(rest + skew)
  end
  if is_written then
    states[k], written[k] = pack('<Bddd', 18, at, current, previous), reset
  elseif state then
    met[k] = reset
  end
  local room = n - current - weight
  return fits and 1 or 0, room > 0 and room or 0, wait, reset
end

local function step_bucket(k, state, action, cost, commit)
  local level, rem, at, skew, is_written = 0, 0, now, 0, false
  if state then
    if #state ~= 41 then return state.err and 2 or 3, 0, 0, 0 end
    local form, last, n0, period0
    form, last, level, rem, n0, period0 = unpack('<Bddddd', state)
    if form ~= 20 or not (last >= 0 and last <= MAX and level >= 0 and level <= MAX and rem >= 0
      and rem < period0 and n0 >= 1 and n0 <= MAX and period0 <= MAX) then return 3, 0, 0, 0 end
    if last < now then
      local drained, part = mul_div(n0, now - last, period0)
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
  local room = burst - level
  if rem > 0 then room = room - 1 end
  local fits, wait = action == 2 or cost <= room, 0
  if not fits then
    wait = cost > burst and -1 or said(drain_time(level - (burst - cost), rem, n, period) + skew)
  elseif commit and action ~= 1 then
    if action == 0 then
      level, room, is_written = level + cost, room - cost, true
    elseif level > 0 or rem > 0 then
      level, is_written = level - cost, true
      if level < 0 then level, rem = 0, 0 end
      room = burst - level
      if rem > 0 then room = room - 1 end
    end
  end
  local reset = said(drain_time(level, rem, n, period) + skew)
  if is_written then
    states[k], written[k] = pack('<Bddddd', 20, at, level, rem, n, period), reset
  elseif state then
    met[k] = reset
  end
  return fits and 1 or 0, room > 0 and room or 0, wait, reset
end

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

local function step_log(k, action, cost, commit)
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
  if commit and fits and action ~= 1 then
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

-- Whether there is still a log to keep.
local function write_log(k, log)
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

-- A log's entry that is none of ours fails its request alone; an error of the store fails the call.
local function guarded(is_done, status, remaining, wait, reset)
  if is_done then return status, remaining, wait, reset end
  if status == NOT_OURS then return 3, 0, 0, 0 end
  error(status, 0)
end

local function step(k, r, action, cost, commit)
  if r ~= rule then
    rule, algorithm, n, period, burst = r, unpack('<Bddd', batch, 25 * r - 22)
  end
  if algorithm == 3 then
    return guarded(pcall(step_log, k, action, cost, commit))
  end
  local state = states[k]
  if state == nil then
    state = attempt('GET', KEYS[k])
    states[k] = state
  end
  if algorithm == 4 then return step_bucket(k, state, action, cost, commit) end
  if algorithm == 2 then return step_sliding(k, state, action, cost, commit) end
  return step_fixed(k, state, action, cost, commit)
end

local position, size = 3 + 25 * unpack('<H', batch), #batch
local replies, count = {}, 0

-- A request of several operations: looks at all of them first, then does them if none denies.
local function decide_several()
  local start, first, denied, failed = position, count, false, false
  local k, r, flags, cost
  repeat
    k, r, flags, cost, position = unpack('<HHBd', batch, position)
    local status, remaining, wait, reset = step(k, r, flags % 4, cost, false)
    count = count + 1
    replies[count] = pack('<Bddd', status, remaining, wait, reset)
    if status > 1 then failed = true elseif status == 0 and flags % 8 < 4 then denied = true end
  until flags >= 8
  if denied and not failed then return end
  position, count = start, first
  repeat
    k, r, flags, cost, position = unpack('<HHBd', batch, position)
    count = count + 1
    if not failed then
      replies[count] = pack('<Bddd', step(k, r, flags % 4, cost, true))
    elseif string.byte(replies[count]) < 2 then
      replies[count] = pack('<Bddd', 4, 0, 0, 0)
    end
  until flags >= 8
end

while position <= size do
  local k, r, flags, cost, following = unpack('<HHBd', batch, position)
  if flags >= 8 then
    count, position = count + 1, following
    replies[count] = pack('<Bddd', step(k, r, flags % 4, cost, true))
  else
    decide_several()
  end
end

local function px(reset)
  return ceil(said(reset + SECOND) / 1000) * STRETCH
end

for k, reset in pairs(written) do
  local state = states[k]
  if type(state) == 'string' then
    call('SET', KEYS[k], state, 'PX', px(reset))
  elseif write_log(k, state) then
    call('PEXPIRE', KEYS[k], px(reset))
  end
end
for k, reset in pairs(met) do
  if not written[k] and call('PTTL', KEYS[k]) == -1 then call('PEXPIRE', KEYS[k], px(reset)) end
end
return table.concat(replies)
