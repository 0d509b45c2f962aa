-- What the index of one key has for places of a history. Read only.
--
-- KEYS  1 history, 2 index mark, 3 key index
-- ARGV  places
-- Returns {how long the history is, how many items of it are indexed, how many places the index has, their scores
--          (false = not in it) ...}
local scores = {}
if #ARGV > 0 then scores = redis.call('ZMSCORE', KEYS[3], unpack(ARGV)) end
return {
  redis.call('LLEN', KEYS[1]), tonumber(redis.call('GET', KEYS[2]) or 0), redis.call('ZCARD', KEYS[3]), unpack(scores)
}
