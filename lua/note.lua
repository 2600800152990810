-- note: write what a run says of its progress into the record of its call.
--
-- Nobody waits for this: it may come when the run has ended. It comes too late when another slot has run the call since.
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
local is_owned = message and string.find(message, ARGV[3], 1, true) -- not the next one, which the slot has claimed since
local record = redis.call('HMGET', key, 'state', 'slot')
if not record[1] or not (is_owned or record[2] == ARGV[2]) then
  return 0
end
if ARGV[4] ~= '' then
  redis.call('HSET', key, 'progress', ARGV[4], 'text', ARGV[5])
end
if ARGV[6] ~= '' then
  redis.call('HSET', key, 'log', string.sub((redis.call('HGET', key, 'log') or '') .. ARGV[6], -MOST))
end
return 1
