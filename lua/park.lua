-- park: move messages from their slots to those that wait for a limit, unchanged.
--
-- No attempt is counted. The recorded deaths of a single call are forgotten.
--
-- KEYS[1]  processing  HASH  wire id -> the message that this slot owns
-- KEYS[2]  worker      HASH  seq: the number of the last call that was applied
-- KEYS[3]  waiters     LIST  messages that wait for this limit, oldest first
-- KEYS[4]  parked      SET   the names of limits for which messages of this queue wait
-- ARGV[1]  seq    the number of this call: one more than the last that was applied
-- ARGV[2]  queue  its name, with which the keys of records begin
-- ARGV[3]  limit  its name
-- ARGV[…]  wire ids, oldest claim first; the caller sends at most 1000
--
-- Returns the number of messages that were parked; the other slots owned nothing any more.
-- Errors  STALE  another call was to come before this one, this one comes too late, or which one came
--                last is not known and this is not the first; nothing was done.

--! include stale
--! include tracked
--! include record

local seq = tonumber(ARGV[1])
local refused = out_of_order(KEYS[2], seq)
if refused then
  return refused
end
redis.call('LLEN', KEYS[3])
redis.call('SCARD', KEYS[4])
local count = 0
redis.call('HDEL', KEYS[1], ' ') -- nobody's field: the first write needs no memory, and the last one is allowed
for i = 4, #ARGV do
  local message = redis.call('HGET', KEYS[1], ARGV[i])
  if message then
    redis.call('SADD', KEYS[4], ARGV[3]) -- before the message, so that it is found
    redis.call('RPUSH', KEYS[3], message)
    redis.call('HDEL', KEYS[1], ARGV[i])
    count = count + 1
    local options = options_of(message)
    if options then
      note_state(ARGV[2], options.i, 'waiting', 'limit', ARGV[3])
    end
  end
end
redis.call('HSET', KEYS[2], 'seq', seq)
return count
