-- Writes history, entries, event ids, outbox and checkpoint of one partition, if the stored state is the one that was
-- folded from. Everything is checked before the first write. Sequences and marks are fixed-width decimal strings: they compare
-- as strings, because Lua's numbers are doubles.
--
-- KEYS  1 checkpoint, 2 what was ever written, 3 runs of event ids, 4 outbox, 5 how far changes were put into it;
--       then of each group its history and its profile; then those that the arguments name by their index
-- ARGV  1 expected next sequence ('' = no checkpoint yet), 2 new next sequence, 3 log id, 4 fold version,
--       5 number of checkpoint fields, 6 of groups, 7 of event ids that are in no run, 8 of runs,
--       9 greatest time-ordered event id, 10 the last run's first id, 11 how many ids it has,
--       12 item of the outbox ('' = none), 13 how far changes are in it with that ('' = as before);
--       then fields: name, value
--       groups: number of records, of entries, of those whose mark must not fall (they come first); items of the history (sequence, packed record), in order;
--               entries: field, mark folded from ('' = none), value
--       event ids in no run: bucket key index, digest, sequence
--       runs: key index, first id if it is a new one ('' = it goes on), key index of the run before it ('' = none), items
-- Announces the new next sequence on the sharded channel that has the checkpoint's own name.
-- Returns {'ok', the new next sequence, numbers of the groups (from 0) whose history grew past a multiple of 64 ...};
-- 'already' (the target is stored); or what does not agree: {'log'|'fold'|'closed'|'checkpoint'|'mark', it}
local MARK_LENGTH, SEQUENCE_LENGTH, STRIDE, MOST = 23, 16, 64, 1000
local call, sub = redis.call, string.sub
local stored = call('HMGET', KEYS[1], 'next', 'log', 'fold', 'closed')
if stored[2] and stored[2] ~= ARGV[3] then return {'log', stored[2]} end
if stored[3] and stored[3] ~= ARGV[4] then return {'fold', stored[3]} end
if stored[1] == ARGV[2] then return {'already', stored[1]} end
if stored[4] then return {'closed', stored[4]} end
if (stored[1] or '') ~= ARGV[1] then return {'checkpoint', stored[1] or ''} end

local groups, groups_at = tonumber(ARGV[6]), 14 + 2 * ARGV[5]

-- A mark only rises, or stays where a late event or a refold changed something else; unless something was withdrawn.
local a, k = groups_at, 6
for _ = 1, groups do
  local entries, rising = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  a = a + 3 + ARGV[a]
  for entry = 1, entries do
    local value = call('HGET', KEYS[k + 1], ARGV[a])
    local mark = value and sub(value, 1, MARK_LENGTH) or ''
    if mark ~= ARGV[a + 1] or entry <= rising and sub(ARGV[a + 2], 1, MARK_LENGTH) < mark then return {'mark', ARGV[a]} end
    a = a + 3
  end
  k = k + 2
end

-- First the outbox: if this call breaks off after here, changes may be told twice, and none is lost.
if ARGV[12] ~= '' then call('RPUSH', KEYS[4], ARGV[12]) end
if ARGV[13] ~= '' then call('HSET', KEYS[5], 'log', ARGV[3], 'next', ARGV[13]) end

-- Where the checkpoint was set back, histories are ahead of it: what they have already is not added again. The same if
-- this call breaks off after here, at a key that somebody else has written.
local top = call('HGET', KEYS[2], 'next')
local behind = not top or ARGV[1] < top
call('HSET', KEYS[2], 'next', (top and top > ARGV[2]) and top or ARGV[2], 'greatest', ARGV[9])
local grown = {'ok', ARGV[2]}
a, k = groups_at, 6
for group = 0, groups - 1 do
  local records, entries, past = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), false
  local first, last = a + 3, a + 2 + records
  if behind and records > 0 then
    local newest = sub(call('LINDEX', KEYS[k], -1) or '', 1, SEQUENCE_LENGTH)
    while first <= last and sub(ARGV[first], 1, SEQUENCE_LENGTH) <= newest do first = first + 1 end
  end
  for from = first, last, MOST do
    local to = math.min(from + MOST - 1, last)
    past = call('RPUSH', KEYS[k], unpack(ARGV, from, to)) % STRIDE <= to - from or past
  end
  if past then grown[#grown + 1] = group end
  a = last + 1
  for _ = 1, entries do
    call('HSET', KEYS[k + 1], ARGV[a], ARGV[a + 2])
    a = a + 3
  end
  k = k + 2
end
for _ = 1, ARGV[7] do
  call('HSET', KEYS[tonumber(ARGV[a])], ARGV[a + 1], ARGV[a + 2])
  a = a + 3
end
for _ = 1, ARGV[8] do
  if ARGV[a + 1] ~= '' then
    call('ZADD', KEYS[3], 0, ARGV[a + 1])
    local before = KEYS[tonumber(ARGV[a + 2])]
    if before then call('SET', before, call('GET', before)) end -- without the room that APPEND leaves
  end
  call('APPEND', KEYS[tonumber(ARGV[a])], ARGV[a + 3])
  a = a + 4
end
for field = 14, groups_at - 1, 2 do call('HSET', KEYS[1], ARGV[field], ARGV[field + 1]) end
call('HSET', KEYS[1], 'next', ARGV[2], 'log', ARGV[3], 'fold', ARGV[4])
call('HSET', KEYS[2], 'run', ARGV[10], 'count', ARGV[11])
call('SPUBLISH', KEYS[1], ARGV[2])
return grown
