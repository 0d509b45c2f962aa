-- Checkpoint and entries of one owner at one moment. Read only.
--
-- KEYS  1 checkpoint, 2 profile hash
-- ARGV  fields; none = all, as field, value ...
local checkpoint = redis.call('HMGET', KEYS[1], 'next', 'fold', 'genesis', 'registry', 'clock')
if #ARGV == 0 then return {checkpoint, redis.call('HGETALL', KEYS[2])} end
return {checkpoint, redis.call('HMGET', KEYS[2], unpack(ARGV))}
