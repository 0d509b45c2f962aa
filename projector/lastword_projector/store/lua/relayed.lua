-- Takes items off the head of the outbox as long as they are those that were sent: what somebody else has put there
-- meanwhile, or has taken off already, is left alone.
--
-- KEYS  1 outbox
-- ARGV  SHA-1 of each item that was sent (hex), in order
-- Returns how many were taken off.
local taken = 0
for _, sent in ipairs(ARGV) do
  local head = redis.call('LINDEX', KEYS[1], 0)
  if not head or redis.sha1hex(head) ~= sent then break end
  redis.call('LPOP', KEYS[1])
  taken = taken + 1
end
return taken
