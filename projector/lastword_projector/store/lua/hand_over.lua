-- Gives a partition's projection over to another namespace: nothing is committed in the old one from here on, and what
-- is to be told, and how far that went, is the new one's.
--
-- KEYS  1 old checkpoint, 2 old outbox, 3 how far changes were put into that; 4, 5 the same of the new one
-- ARGV  1 new namespace, 2 log id, 3 how far changes count as told where that is not known of this log
redis.call('HSET', KEYS[1], 'closed', ARGV[1])
local told = redis.call('HMGET', KEYS[3], 'log', 'next')
redis.call('HSET', KEYS[5], 'log', ARGV[2], 'next', told[1] == ARGV[2] and told[2] or ARGV[3])
if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('RENAME', KEYS[2], KEYS[4]) end
return 1
