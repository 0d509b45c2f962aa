-- The last record of an owner's history that is not above a sequence, by binary search; false if there is none. Read only.
--
-- KEYS  1 list
-- ARGV  1 sequence (16 digits)
local SEQUENCE_LENGTH = 16
local low, high = 0, redis.call('LLEN', KEYS[1]) - 1
local found = false
while low <= high do
  local middle = math.floor((low + high) / 2)
  local item = redis.call('LINDEX', KEYS[1], middle)
  if string.sub(item, 1, SEQUENCE_LENGTH) <= ARGV[1] then
    found = item
    low = middle + 1
  else
    high = middle - 1
  end
end
return found
