-- finish: release a message whose call is followed or unique, and note how it ended.
--
-- KEYS[1]  processing  HASH  wire id -> the message that this slot owns
-- KEYS[2]  worker      HASH  seq: the number of the last call that was applied
-- KEYS[3]  deaths      HASH  SHA-1 of a message -> deaths of processes that owned it
-- KEYS[4]  cancelled   ZSET  id -> when a waiting call was cancelled, in milliseconds since 1970
-- ARGV[1]  seq      the number of this call: one more than the last that was applied
-- ARGV[2]  wire id  of the slot
-- ARGV[3]  queue    its name, with which the keys of the record and the lock begin
-- ARGV[4]  id       of the call: 16 bytes
-- ARGV[5]  keep     for how many milliseconds the record is kept; empty: there is none
-- ARGV[6]  lock     mode and digest; empty: none
-- ARGV[7]  state    in which it ended
-- ARGV[8]  took     milliseconds that the run took
-- ARGV[…]  more fields of the record, and their values
--
-- Returns 1, or 0 when the slot owned nothing any more: then nothing was noted.
-- Errors  STALE  another call was to come before this one, this one comes too late, or which one came
--                last is not known and this is not the first; nothing was done.

--! include stale
--! include now
--! include record

local seq = tonumber(ARGV[1])
local refused = out_of_order(KEYS[2], seq)
if refused then
  return refused
end
local message = redis.call('HGET', KEYS[1], ARGV[2])
local suspects = redis.call('HLEN', KEYS[3])
redis.call('HDEL', KEYS[1], ' ') -- nobody's field: the first write needs no memory, and the last one is allowed
if message then
  if suspects > 0 then
    redis.call('HDEL', KEYS[3], redis.sha1hex(message))
  end
  local now = now_ms()
  redis.pcall('ZREM', KEYS[4], ARGV[4])
  note_end(ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6] ~= '' and ARGV[6], now, ARGV[7], 'began', now - ARGV[8], unpack(ARGV, 9))
end
redis.call('HSET', KEYS[2], 'seq', seq)
redis.call('HDEL', KEYS[1], ARGV[2])
return message and 1 or 0
