-- Entries and events that a batch asks for. Read only.
--
-- KEYS  1 runs of event ids, 2.. those that the arguments name by their index
-- ARGV  1 what the names of runs begin with, 2 number of entries, then profile key index, field ...
--       then events: id if it is time-ordered (else ''), bucket key index, digest, history key index
-- A run has the partition's hash tag as all other keys; which one it is shows only here.
-- Returns {values of the entries (false = none), events: false = none, the sequence alone = not in the history, else the
-- item of the history}
local SEQUENCE_LENGTH, DIGEST_LENGTH, ITEM_LENGTH = 16, 16, 23
local call, sub = redis.call, string.sub

local function in_run(id, digest)
  local run = call('ZREVRANGEBYLEX', KEYS[1], '[' .. id, '-', 'LIMIT', 0, 1)[1]
  local items = run and call('GET', ARGV[1] .. run) or ''
  local at = string.find(items, digest, 1, true)
  while at and (at - 1) % ITEM_LENGTH ~= 0 do at = string.find(items, digest, at + 1, true) end
  if not at then return false end
  local sequence = 0
  for _, byte in ipairs({string.byte(items, at + DIGEST_LENGTH, at + ITEM_LENGTH - 1)}) do
    sequence = sequence * 256 + byte
  end
  return sequence
end

-- As `find.lua` does it: places are guessed, every other time the middle is taken.
local function in_history(key, wanted)
  local low, high, guess = 0, call('LLEN', key) - 1, true
  local below, above = call('LINDEX', key, 0), call('LINDEX', key, -1)
  while high >= low do
    local first, last = sub(below, 1, SEQUENCE_LENGTH), sub(above, 1, SEQUENCE_LENGTH)
    if first == wanted then return below end
    if last == wanted then return above end
    if first > wanted or last < wanted or high - low < 2 then break end
    local middle = math.floor((low + high) / 2)
    if guess then middle = low + math.floor((high - low) * (wanted - first) / (last - first)) end
    middle = math.max(low + 1, math.min(high - 1, middle))
    guess = not guess
    local item = call('LINDEX', key, middle)
    if sub(item, 1, SEQUENCE_LENGTH) <= wanted then low, below = middle, item else high, above = middle, item end
  end
  return wanted
end

local entries, events = {}, {}
local events_at = 3 + 2 * ARGV[2]
for a = 3, events_at - 1, 2 do
  entries[#entries + 1] = call('HGET', KEYS[tonumber(ARGV[a])], ARGV[a + 1])
end
for a = events_at, #ARGV, 4 do
  local found = ARGV[a] ~= '' and in_run(ARGV[a], ARGV[a + 2])
  found = found or call('HGET', KEYS[tonumber(ARGV[a + 1])], ARGV[a + 2])
  events[#events + 1] = found and in_history(KEYS[tonumber(ARGV[a + 3])], string.format('%016.0f', found))
end
return {entries, events}
