-- note: write what a run says of its progress into the record of its call.
--
-- Nobody waits for this, so the last words of a run may come behind its end. Its lines are kept in any case; its progress is not
-- once a later run of the call has begun.
--
-- KEYS[1]  processing  HASH  wire id -> the message that this slot owns
-- ARGV[1]  queue     its name, with which the key of the record begins
-- ARGV[2]  wire id   of the slot
-- ARGV[3]  id        of the call: 16 bytes
-- ARGV[4]  progress  from 0 to 1; empty: nothing new
-- ARGV[5]  text      what it does
-- ARGV[6]  lines     for the log, each with a line feed; empty: none
--
-- Returns 1, or 0 when it came too late, or there is no record: then nothing was written.

--! include record

local MOST = 16384 -- bytes of the log that are kept, the last ones

local key = record_of(ARGV[1], ARGV[3])
local message = redis.call('HGET', KEYS[1], ARGV[2])
local state = redis.call('HGET', key, 'state')
local is_owned = message and string.find(message, ARGV[3], 1, true) -- not the next one, which the slot has claimed since
local is_its = is_owned and not ENDED[state]
if state and not is_its then
  local slot = redis.call('HGET', key, 'slot')
  local is_short = not slot and (ENDED[state] or state == 'retrying') -- it ended before its start was noted
  is_its = slot == ARGV[2] or is_short
end
if not state or (not is_its and ARGV[6] == '') then
  return 0
end
if ARGV[4] ~= '' and is_its then
  redis.call('HSET', key, 'progress', ARGV[4], 'text', ARGV[5])
end
if ARGV[6] ~= '' then
  redis.call('HSET', key, 'log', string.sub((redis.call('HGET', key, 'log') or '') .. ARGV[6], -MOST))
end
return 1
