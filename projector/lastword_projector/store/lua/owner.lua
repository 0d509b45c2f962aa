-- Checkpoint, entries and the beginning of the history of one owner at one moment, as much as is quickly read. Read only.
--
-- KEYS  1 checkpoint, 2 profile hash, 3 history list
-- ARGV  1 entries, 2 items of the history, 3 bytes of each that are given at most
-- Returns {checkpoint, entries as field, value ... (false if there are more), items of the history, how many it has}
local call = redis.call
local checkpoint = call('HMGET', KEYS[1], 'next', 'fold', 'genesis', 'registry', 'clock')
local most = tonumber(ARGV[3])
local count, entries = call('HLEN', KEYS[2]), {}
if count > tonumber(ARGV[1]) or count > 0 and call('MEMORY', 'USAGE', KEYS[2]) > most then
  entries = false
elseif count > 0 then
  entries = call('HGETALL', KEYS[2])
end
local length, items = call('LLEN', KEYS[3]), {}
if length > 0 then
  local fit = math.floor(most * length / call('MEMORY', 'USAGE', KEYS[3]))
  items = call('LRANGE', KEYS[3], 0, math.max(0, math.min(fit, tonumber(ARGV[2])) - 1))
end
return {checkpoint, entries, items, length}
