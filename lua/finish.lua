-- finish: release messages whose calls are tracked or unique, and record how they ended.
--
-- Behind an ordered call, the next one is moved to the queue.
--
-- KEYS[1]  processing  HASH  wire id -> the message that this slot owns
-- KEYS[2]  worker      HASH  seq: the number of the last call that was applied
-- KEYS[3]  deaths      HASH  SHA-1 of a message -> deaths of processes that owned it
-- KEYS[4]  cancelled   ZSET  id -> when a waiting call was cancelled, in milliseconds since 1970
-- ARGV[1]  seq      the number of this call: one more than the last that was applied
-- ARGV[2]  queue    its name, with which the keys of the records and the locks begin
-- ARGV[…]  for each call, at most 100: the wire id of its slot, its id (16 bytes), for how many milliseconds its record is
--          kept (empty: it has none), its lock (mode and digest; empty: none), of which flow it is a step (as in its
--          message; empty: of none), the state in which it ended, how many milliseconds its run took, which attempt that
--          was, and the name and the value of one more field of its record (an empty name: none)
--
-- Returns an array: for each call 1, or 0 when its slot owned nothing any more: then nothing was noted of it.
-- Errors  STALE  another call was to come before this one, this one comes too late, or which one came
--                last is not known and this is not the first; nothing was done.

--! include stale
--! include now
--! include tracked
--! include record

local FIRST, FIELDS = 3, 10
local seq = tonumber(ARGV[1])
local refused = out_of_order(KEYS[2], seq)
if refused then
  return refused
end
local wire_ids, step = {}, nil
for i = FIRST, #ARGV, FIELDS do
  wire_ids[#wire_ids + 1] = ARGV[i]
  step = ARGV[i + 4] ~= '' and { m = ARGV[i + 4] } or step
end
local messages = redis.call('HMGET', KEYS[1], unpack(wire_ids))
local suspects = redis.call('HLEN', KEYS[3])
redis.call('HDEL', KEYS[1], ' ') -- nobody's field: the first write needs no memory, and the last one is allowed
refused = outbox_error(ARGV[2], step)
if refused then
  return refused
end
local now, owned, ids = now_ms(), {}, {}
for place, message in ipairs(messages) do
  owned[place] = message and 1 or 0
  if message then
    if suspects > 0 then
      redis.call('HDEL', KEYS[3], redis.sha1hex(message))
    end
    local at = FIRST + (place - 1) * FIELDS
    local id, keep, lock, member, state, took, attempt, field = unpack(ARGV, at + 1, at + 8)
    local more = field == '' and at + FIELDS or at + 8 -- from there on: nothing, or the field and its value
    ids[#ids + 1] = id
    local call = { i = id, s = tonumber(keep), u = lock ~= '' and lock, m = member ~= '' and member }
    note_end(
      ARGV[2], call, now, state, 'began', now - took, 'attempt', attempt, 'slot', ARGV[at], unpack(ARGV, more, at + 9)
    )
  end
end
if #ids > 0 then
  redis.pcall('ZREM', KEYS[4], unpack(ids))
end
redis.call('HSET', KEYS[2], 'seq', seq)
redis.call('HDEL', KEYS[1], unpack(wire_ids))
return owned
