-- Checkpoint and the newest events of one key within a boundary, at one moment. Read only.
--
-- KEYS  1 checkpoint, 2 history, 3 index mark, 4 key index
-- ARGV  1 greatest source sequence, 2 how many indexed events to pass over, 3 how many to give, 4 history shorter than
--       this: give all of it
-- Returns {checkpoint, items of the history that are not indexed yet (or all), indexed items (newest source first),
--          whether there are more of those}
local checkpoint = redis.call('HMGET', KEYS[1], 'next', 'fold', 'genesis', 'registry', 'clock')
local length = redis.call('LLEN', KEYS[2])
local indexed = tonumber(redis.call('GET', KEYS[3]) or 0)
if length < tonumber(ARGV[4]) then indexed = 0 end
local tail = {}
if ARGV[2] == '0' then tail = redis.call('LRANGE', KEYS[2], indexed, -1) end
if indexed == 0 then return {checkpoint, tail, {}, 0} end
local places = redis.call('ZREVRANGEBYSCORE', KEYS[4], ARGV[1], '-inf', 'LIMIT', ARGV[2], ARGV[3] + 1)
local items = {}
for i = 1, math.min(#places, ARGV[3]) do items[i] = redis.call('LINDEX', KEYS[2], places[i]) end
return {checkpoint, tail, items, #places > tonumber(ARGV[3]) and 1 or 0}
