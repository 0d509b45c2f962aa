-- Appends records to owners' histories; a record that is already there (its sequence is not above the last one) stays.
--
-- KEYS  lists
-- ARGV  key index, sequence (16 digits), packed record ...
local SEQUENCE_LENGTH = 16
local last = {}
local added = 0
for a = 1, #ARGV, 3 do
  local index = tonumber(ARGV[a])
  if last[index] == nil then
    local item = redis.call('LINDEX', KEYS[index], -1)
    last[index] = item and string.sub(item, 1, SEQUENCE_LENGTH) or ''
  end
  if ARGV[a + 1] > last[index] then
    redis.call('RPUSH', KEYS[index], ARGV[a + 1] .. ARGV[a + 2])
    last[index] = ARGV[a + 1]
    added = added + 1
  end
end
return added
