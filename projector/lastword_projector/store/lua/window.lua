-- The newest events of one key within a boundary. Read only.
--
-- KEYS  1 history, 2 index mark, 3 key index
-- ARGV  1 greatest source sequence, 2 how many indexed events to pass over, 3 how many to give, 4 history shorter than
--       this: give all of it
-- Returns {items of the history that are not indexed yet (or all; with the first window only), indexed items (newest
--          source first), whether there are more of those}
local length = redis.call('LLEN', KEYS[1])
local indexed = tonumber(redis.call('GET', KEYS[2]) or 0)
if length < tonumber(ARGV[4]) then indexed = 0 end
local tail = {}
if ARGV[2] == '0' then tail = redis.call('LRANGE', KEYS[1], indexed, -1) end
if indexed == 0 then return {tail, {}, 0} end
local places = redis.call('ZREVRANGEBYSCORE', KEYS[3], ARGV[1], '-inf', 'LIMIT', ARGV[2], ARGV[3] + 1)
local items = {}
for i = 1, math.min(#places, ARGV[3]) do items[i] = redis.call('LINDEX', KEYS[1], places[i]) end
return {tail, items, #places > tonumber(ARGV[3]) and 1 or 0}
