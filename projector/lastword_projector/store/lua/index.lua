-- Adds events of a history to the indexes of their keys, from where the index ends.
--
-- KEYS  1 index mark, 2.. key indexes
-- ARGV  1 where the index ended ('0' = there was none), 2 where it ends now, then key index, source sequence, place ...
-- Returns 1, or 0 if somebody else has been there
if (redis.call('GET', KEYS[1]) or '0') ~= ARGV[1] then return 0 end
for a = 3, #ARGV, 3 do redis.call('ZADD', KEYS[tonumber(ARGV[a])], ARGV[a + 1], ARGV[a + 2]) end
redis.call('SET', KEYS[1], ARGV[2])
return 1
