-- Writes history, entries, event ids and checkpoint of one partition, if the stored state is the one that was folded
-- from. Everything is checked before the first write. Sequences and marks are fixed-width decimal strings: they compare
-- as strings, because Lua's numbers are doubles.
--
-- KEYS  1 checkpoint, 2.. those that the arguments name by their index
-- ARGV  1 expected next sequence ('' = no checkpoint yet), 2 new next sequence, 3 log id, 4 fold version,
--       5 number of checkpoint fields, 6 of histories, 7 of records, 8 of entries, 9 of events, 10 of spare records;
--       then fields: name, value
--       histories: key index, number of records (in order)
--       records: sequence, packed
--       entries: profile key index, field, mark folded from ('' = none), head, number of its record (spare ones follow)
--       events: bucket key index, digest, sequence
--       spare records: packed (of entries whose record is not among this commit's)
-- Announces the new next sequence on the sharded channel that has the checkpoint's own name.
-- Returns {'ok', the new next sequence, numbers of the histories that grew past a multiple of 64 ...}; 'already' (the
-- target is stored); or what does not agree: {'log'|'fold'|'checkpoint'|'mark', it}
local MARK_LENGTH, SEQUENCE_LENGTH, STRIDE = 23, 16, 64
local call = redis.call
local stored = call('HMGET', KEYS[1], 'next', 'log', 'fold')
if stored[2] and stored[2] ~= ARGV[3] then return {'log', stored[2]} end
if stored[3] and stored[3] ~= ARGV[4] then return {'fold', stored[3]} end
if stored[1] == ARGV[2] then return {'already', stored[1]} end
if (stored[1] or '') ~= ARGV[1] then return {'checkpoint', stored[1] or ''} end

local fields_at = 11
local histories_at = fields_at + 2 * ARGV[5]
local records_at = histories_at + 2 * ARGV[6]
local entries_at = records_at + 2 * ARGV[7]
local events_at = entries_at + 5 * ARGV[8]
local spare_at = events_at + 3 * ARGV[9]
local records = tonumber(ARGV[7])

-- A mark only rises, or stays where a late event or a refold changed something else.
for a = entries_at, events_at - 1, 5 do
  local value = call('HGET', KEYS[tonumber(ARGV[a])], ARGV[a + 1])
  local mark = value and string.sub(value, 1, MARK_LENGTH) or ''
  if mark ~= ARGV[a + 2] or string.sub(ARGV[a + 3], 1, MARK_LENGTH) < mark then return {'mark', ARGV[a + 1]} end
end

local r = records_at
local grown = {'ok', ARGV[2]}
for a = histories_at, records_at - 1, 2 do
  local key = KEYS[tonumber(ARGV[a])]
  local newest = call('LINDEX', key, -1)
  local last = newest and string.sub(newest, 1, SEQUENCE_LENGTH) or ''
  local past = false
  for _ = 1, ARGV[a + 1] do
    if ARGV[r] > last then
      last = ARGV[r]
      past = call('RPUSH', key, last .. ARGV[r + 1]) % STRIDE == 0 or past
    end
    r = r + 2
  end
  if past then grown[#grown + 1] = (a - histories_at) / 2 end
end
for a = entries_at, events_at - 1, 5 do
  local number = tonumber(ARGV[a + 4])
  local packed = number <= records and ARGV[records_at + 2 * number - 1] or ARGV[spare_at + number - records - 1]
  call('HSET', KEYS[tonumber(ARGV[a])], ARGV[a + 1], ARGV[a + 3] .. packed)
end
for a = events_at, spare_at - 1, 3 do
  call('HSET', KEYS[tonumber(ARGV[a])], ARGV[a + 1], ARGV[a + 2])
end
for a = fields_at, histories_at - 1, 2 do
  call('HSET', KEYS[1], ARGV[a], ARGV[a + 1])
end
call('HSET', KEYS[1], 'next', ARGV[2], 'log', ARGV[3], 'fold', ARGV[4])
call('SPUBLISH', KEYS[1], ARGV[2])
return grown
