-- Checkpoint and a slice of an owner's history at one moment. Read only.
--
-- KEYS  1 checkpoint, 2 list
-- ARGV  1 first, 2 last index (inclusive, from 0)
local checkpoint = redis.call('HMGET', KEYS[1], 'next', 'fold', 'genesis', 'registry', 'clock')
return {checkpoint, redis.call('LRANGE', KEYS[2], ARGV[1], ARGV[2])}
