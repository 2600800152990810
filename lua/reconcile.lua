-- reconcile: find out what happened to calls whose replies were lost, and refuse those still in flight.
--
-- Stores a number far beyond theirs, so that a call that arrives later is STALE, and returns what was applied and
-- what each slot owns now. Stores its own number as a fence, with its answer: if this reply is lost, too, the next
-- reconcile gives the same answer and does not take the fence for an applied call. The same number may be sent again.
-- Reports suspects as the lost claim would have done.
--
-- KEYS[1]  processing  HASH  wire id -> the message that this slot owns
-- KEYS[2]  worker      HASH  seq: the number of the last call that was applied; fence, applied: the
--                            number of the last reconcile, and its answer
-- KEYS[3]  deaths      HASH  SHA-1 of a message -> deaths of processes that owned it
-- KEYS[4]  cancelled   ZSET  id -> when a waiting call was cancelled
-- ARGV[1]  seq  the number of this call, beyond any before; the next call of the worker is one more
-- ARGV[2]  lease in milliseconds, for the worker's hash
-- ARGV[…]  the wire ids of the slots in question, at least one; the caller sends at most 2000
--
-- Returns an array: the number of the last call that was applied (-1 when Redis does not know), an array
-- of those slots, from 1 on, that own a suspect which is to run alone, an array of those whose calls were cancelled, then the
-- message of each slot, or nil. A reply that gets large ends early: the caller asks for the other slots with the same number.
-- Errors  STALE  a later call was applied; nothing was done.

--! include deaths
--! include marks
--! include tracked
--! include cancelled

local FIRST_ID, ENOUGH = 3, 8388608 -- bytes after which a reply is large

local seq = tonumber(ARGV[1])
local worker = redis.call('HMGET', KEYS[2], 'seq', 'fence', 'applied')
local last, applied = tonumber(worker[1] or -1), tonumber(worker[1] or -1)
local fenced = worker[1] and worker[1] == worker[2]
if seq < last or (seq == last and not fenced) then
  return redis.error_reply('STALE a later call of this worker was applied')
end
if fenced then
  applied = tonumber(worker[3])
end
local suspects = redis.call('HLEN', KEYS[3]) > 0
local owned, alone, bytes = {}, {}, 0
local is_marked, places = redis.call('EXISTS', KEYS[4]) == 1, {}
local denied = is_marked and marks_denied(KEYS[4])
if denied then
  return denied
end
for i = FIRST_ID, #ARGV do
  local message = redis.call('HGET', KEYS[1], ARGV[i])
  owned[#owned + 1] = message
  if suspects and message and is_suspect(redis.call('HGET', KEYS[3], redis.sha1hex(message))) then
    alone[#alone + 1] = #owned
  end
  if is_marked and message and marked_among(KEYS[4], { message })[1] then
    places[#places + 1] = #owned
  end
  bytes = bytes + (message and #message or 0)
  if bytes >= ENOUGH then
    break
  end
end

redis.call('PEXPIRE', KEYS[2], 4 * tonumber(ARGV[2])) -- the first write: needs no memory
redis.call('HSET', KEYS[2], 'seq', seq, 'fence', seq, 'applied', applied)
redis.call('PEXPIRE', KEYS[2], 4 * tonumber(ARGV[2]))
return { applied, alone, places, unpack(owned) }
