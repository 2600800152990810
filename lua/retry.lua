-- retry: move a message from its slot to the tail of the queue, to be tried again.
--
-- A message that the worker has lost is not queued a second time. The field is removed last, so that a refused
-- push loses nothing. A run that ended took no process down, and the message has different bytes now, so the
-- deaths of the old bytes are forgotten.
--
-- KEYS[1]  queue          LIST  waiting messages, oldest first
-- KEYS[2]  notifications  LIST  one token for each waiting message
-- KEYS[3]  processing     HASH  wire id -> the message that this slot owns
-- KEYS[4]  worker         HASH  seq: the number of the last call that was applied
-- KEYS[5]  deaths         HASH  SHA-1 of a message -> deaths of processes that owned it
-- ARGV[1]  seq      the number of this call: one more than the last that was applied
-- ARGV[2]  wire id  of the slot
-- ARGV[3]  message  for the next attempt
-- ARGV[4]  errors   of the failed attempts, for the record; empty: none, or there is no record
--
-- Returns 1, or 0 when the slot owned nothing any more: then nothing was moved.
-- Errors  STALE  another call was to come before this one, this one comes too late, or which one came
--                last is not known and this is not the first; nothing was done.

--! include stale
--! include tracked
--! include record

local seq = tonumber(ARGV[1])
local refused = out_of_order(KEYS[4], seq)
if refused then
  return refused
end
redis.call('LLEN', KEYS[1])
redis.call('LLEN', KEYS[2])

local suspects = redis.call('HLEN', KEYS[5])
local owned = redis.call('HEXISTS', KEYS[3], ARGV[2])
redis.call('HDEL', KEYS[3], ' ') -- nobody's field: the first write needs no memory, and the last one is allowed
if owned == 1 then
  redis.call('RPUSH', KEYS[1], ARGV[3])
  redis.call('RPUSH', KEYS[2], '1')
  if suspects > 0 then
    redis.call('HDEL', KEYS[5], redis.sha1hex(redis.call('HGET', KEYS[3], ARGV[2])))
  end
  redis.call('HDEL', KEYS[3], ARGV[2])
end
redis.call('HSET', KEYS[4], 'seq', seq)
local options = owned == 1 and options_of(ARGV[3])
if options then
  note_state(KEYS[1], options.i, 'waiting', 'slot', ARGV[2])
  if ARGV[4] ~= '' then
    note_state(KEYS[1], options.i, 'waiting', 'errors', ARGV[4])
  end
end
return owned
