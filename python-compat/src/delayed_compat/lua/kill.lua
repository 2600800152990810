-- kill: request that a worker end the run of one of its slots.
--
-- The request is pending until a beat of the worker takes it, or until it expires. It names the message and the
-- worker's last call, so that it does not hit a slot that has moved on to another message, or has claimed the
-- same bytes again.
--
-- KEYS[1]  processing  HASH    wire id -> the message that this slot owns
-- KEYS[2]  worker      HASH    seq: the number of the last call that was applied
-- KEYS[3]  live key    STRING  the slot's owner is alive
-- KEYS[4]  orders      HASH    wire id -> SHA-1 of the message, a space, seq, a space, by whom
-- KEYS[5]  answer      STRING  what the worker did about an earlier order
-- ARGV[1]  wire id  of the slot
-- ARGV[2]  digest   SHA-1 of the message that is to be ended
-- ARGV[3]  by       who orders it
-- ARGV[4]  expiry   in milliseconds
-- ARGV[5]  most     orders that may stand for one worker
--
-- Returns 1 when the order stands, 0 when the slot owns nothing or another message, -1 when its worker
-- is dead, -2 when too many orders stand already; then nothing was written.

local message = redis.call('HGET', KEYS[1], ARGV[1])
local seq = redis.call('HGET', KEYS[2], 'seq')
local alive = redis.call('GET', KEYS[3])
local orders = redis.call('HLEN', KEYS[4])
redis.call('GET', KEYS[5]) -- UNLINK would take any type

if not message or redis.sha1hex(message) ~= ARGV[2] then
  return 0
end
if not alive then
  return -1
end
if orders >= tonumber(ARGV[5]) and redis.call('HEXISTS', KEYS[4], ARGV[1]) == 0 then
  return -2
end
redis.call('UNLINK', KEYS[5]) -- the first write needs no memory
redis.call('HSET', KEYS[4], ARGV[1], ARGV[2] .. ' ' .. (seq or 0) .. ' ' .. ARGV[3])
redis.call('PEXPIRE', KEYS[4], ARGV[4])
return 1
