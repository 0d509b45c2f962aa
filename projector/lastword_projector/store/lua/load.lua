-- Entries and events that a batch asks for. Read only.
--
-- KEYS  those that the arguments name by their index
-- ARGV  1 number of entries, then profile key index, field ...
--       then events: bucket key index, digest, history key index
-- Returns {values of the entries (false = none), events: false = none, the sequence alone = not in the history, else the
-- item of the history}
local SEQUENCE_LENGTH = 16
local call = redis.call
local entries, events = {}, {}
local events_at = 2 + 2 * ARGV[1]
for a = 2, events_at - 1, 2 do
  entries[#entries + 1] = call('HGET', KEYS[tonumber(ARGV[a])], ARGV[a + 1])
end
for a = events_at, #ARGV, 3 do
  local found = call('HGET', KEYS[tonumber(ARGV[a])], ARGV[a + 1])
  if found then
    local wanted = string.format('%016.0f', found)
    local key = KEYS[tonumber(ARGV[a + 2])]
    local low, high = 0, call('LLEN', key) - 1
    found = wanted
    while low <= high do
      local middle = math.floor((low + high) / 2)
      local item = call('LINDEX', key, middle)
      local sequence = string.sub(item, 1, SEQUENCE_LENGTH)
      if sequence == wanted then found = item break end
      if sequence < wanted then low = middle + 1 else high = middle - 1 end
    end
  end
  events[#events + 1] = found
end
return {entries, events}
