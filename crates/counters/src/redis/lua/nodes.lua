--[[ Says that a node is alive and how many are.

KEYS[1]  where the nodes are kept: records of 24 bytes, id (8), mark of its policy (8), when it last
         spoke (a double, microseconds by the server's clock). The key lives for a minute.
ARGV     this node's id; its mark; how long a silent node counts, in microseconds
Reply    an integer: nodes that are alive, this one included, times 65536, plus how many of them run
         another policy.
]]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local stored = redis.call('GET', KEYS[1]) or ''
local id, mark, patience = ARGV[1], ARGV[2], tonumber(ARGV[3])
local kept, alive, differing = {id .. mark .. struct.pack('<d', now)}, 1, 0
for from = 1, #stored - 23, 24 do
  local other = string.sub(stored, from, from + 7)
  local spoke = struct.unpack('<d', stored, from + 16)
  if other ~= id and now - spoke < patience and spoke - now < patience and alive < 4096 then
    kept[#kept + 1] = string.sub(stored, from, from + 23)
    alive = alive + 1
    if string.sub(stored, from + 8, from + 15) ~= mark then differing = differing + 1 end
  end
end
redis.call('SET', KEYS[1], table.concat(kept), 'PX', 60000)
return alive * 65536 + differing
