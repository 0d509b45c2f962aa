-- Writes entries, event ids and checkpoint of one partition, if the stored state is the one that was folded from.
-- Everything is checked before the first write. Sequences and marks are fixed-width decimal strings: they compare as
-- strings, because Lua's numbers are doubles.
--
-- KEYS  1 checkpoint, 2.. profile and event hashes
-- ARGV  1 expected next sequence ('' = no checkpoint yet), 2 new next sequence, 3 log id, 4 fold version,
--       5 number of checkpoint fields, then field, value ...
--       number of entries, then key index, field, mark folded from ('' = none), 'above' or 'equal', new mark, value ...
--       number of events, then key index, event id, sequence ...
-- Announces the new next sequence on the sharded channel that has the checkpoint's own name.
-- Returns 'ok'; 'already' (the target is stored); or what does not agree: {'log'|'fold'|'checkpoint'|'mark'|'order', it}
local MARK_LENGTH = 23
local stored = redis.call('HMGET', KEYS[1], 'next', 'log', 'fold')
if stored[2] and stored[2] ~= ARGV[3] then return {'log', stored[2]} end
if stored[3] and stored[3] ~= ARGV[4] then return {'fold', stored[3]} end
if stored[1] == ARGV[2] then return {'already', stored[1]} end
if (stored[1] or '') ~= ARGV[1] then return {'checkpoint', stored[1] or ''} end

local at = 5
local fields = tonumber(ARGV[at])
local fields_at = at + 1
at = fields_at + 2 * fields
local entries = tonumber(ARGV[at])
local entries_at = at + 1
for i = 0, entries - 1 do
  local a = entries_at + 6 * i
  local value = redis.call('HGET', KEYS[tonumber(ARGV[a])], ARGV[a + 1])
  local mark = value and string.sub(value, 1, MARK_LENGTH) or ''
  if mark ~= ARGV[a + 2] then return {'mark', ARGV[a + 1]} end
  if ARGV[a + 3] == 'above' then
    if not (ARGV[a + 4] > mark) then return {'order', ARGV[a + 1]} end
  elseif ARGV[a + 4] ~= mark then
    return {'order', ARGV[a + 1]}
  end
end

for i = 0, entries - 1 do
  local a = entries_at + 6 * i
  redis.call('HSET', KEYS[tonumber(ARGV[a])], ARGV[a + 1], ARGV[a + 5])
end
at = entries_at + 6 * entries
local events = tonumber(ARGV[at])
for i = 0, events - 1 do
  local a = at + 1 + 3 * i
  redis.call('HSET', KEYS[tonumber(ARGV[a])], ARGV[a + 1], ARGV[a + 2])
end
redis.call('HSET', KEYS[1], 'next', ARGV[2], 'log', ARGV[3], 'fold', ARGV[4])
for i = 0, fields - 1 do
  redis.call('HSET', KEYS[1], ARGV[fields_at + 2 * i], ARGV[fields_at + 2 * i + 1])
end
redis.call('SPUBLISH', KEYS[1], ARGV[2])
return {'ok', ARGV[2]}
