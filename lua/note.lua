-- note: write the progress of a run into the record of its call.
--
-- The worker does not wait for this, so the last note of a run may arrive after the end of the run. It is
-- accepted unless the record names another slot, that of a later run.
--
-- KEYS[1]  processing  HASH  wire id -> the message that this slot owns
-- ARGV[1]  queue     its name, with which the key of the record begins
-- ARGV[2]  wire id   of the slot
-- ARGV[3]  id        of the call: 16 bytes
-- ARGV[4]  progress  from 0 to 1; empty: nothing new
-- ARGV[5]  text      what it does
-- ARGV[6]  lines     for the log, each with a line feed; empty: none
--
-- Returns 1, or 0 when it came too late: then nothing was written.

--! include record

local MOST = 16384 -- bytes of the log that are kept, the last ones

local key = record_of(ARGV[1], ARGV[3])
local message = redis.call('HGET', KEYS[1], ARGV[2])
local state = redis.call('HGET', key, 'state')
local is_owned = message and string.find(message, ARGV[3], 1, true) -- not the next one, which the slot has claimed since
local is_its = is_owned and not ENDED[state]
if not is_its and (ENDED[state] or state == 'retrying') then
  is_its = (redis.call('HGET', key, 'slot') or ARGV[2]) == ARGV[2] -- a short run ends before its start is noted
end
if not state or not is_its then
  return 0
end
if ARGV[4] ~= '' then
  redis.call('HSET', key, 'progress', ARGV[4], 'text', ARGV[5])
end
if ARGV[6] ~= '' then
  redis.call('HSET', key, 'log', string.sub((redis.call('HGET', key, 'log') or '') .. ARGV[6], -MOST))
end
return 1
