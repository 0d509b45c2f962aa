-- The last record of an owner's history that is not above a sequence; false if there is none. Read only.
--
-- A place in the middle of a long list takes Redis long to reach, so places are guessed: sequences grow about evenly.
-- Every other guess is the middle, for where they don't.
--
-- KEYS  1 list
-- ARGV  1 sequence (16 digits)
local SEQUENCE_LENGTH = 16
local call, sub = redis.call, string.sub
local wanted = ARGV[1]
local low, high = 0, call('LLEN', KEYS[1]) - 1
if high < 0 then return false end
local below, above = call('LINDEX', KEYS[1], 0), call('LINDEX', KEYS[1], -1)
if sub(above, 1, SEQUENCE_LENGTH) <= wanted then return above end
if sub(below, 1, SEQUENCE_LENGTH) > wanted then return false end
-- From here on `below`, at `low`, is not above it, and `above`, at `high`, is.
local guess = true
while high - low > 1 do
  local middle = math.floor((low + high) / 2)
  if guess then
    local first, last = tonumber(sub(below, 1, SEQUENCE_LENGTH)), tonumber(sub(above, 1, SEQUENCE_LENGTH))
    middle = low + math.floor((high - low) * (wanted - first) / (last - first))
    middle = math.max(low + 1, math.min(high - 1, middle))
  end
  guess = not guess
  local item = call('LINDEX', KEYS[1], middle)
  if sub(item, 1, SEQUENCE_LENGTH) <= wanted then low, below = middle, item else high, above = middle, item end
end
return below
