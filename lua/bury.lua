-- bury: move a message from its slot to the dead letters, with the reason.
--
-- A stream that begins with an entry other than a dead letter belongs to another program and is not trimmed. The keys
-- of a record and a lock begin with the queue's name, which is that of the dead letters without its suffix.
--
-- KEYS[1]  processing  HASH    wire id -> the message that this slot owns
-- KEYS[2]  worker      HASH    seq: the number of the last call that was applied
-- KEYS[3]  dead        STREAM  dead letters, oldest first
-- KEYS[4]  deaths      HASH    SHA-1 of a message -> deaths of processes that owned it
-- ARGV[1]  seq        the number of this call: one more than the last that was applied
-- ARGV[2]  wire id    of the slot
-- ARGV[3]  max_count  how many dead letters are kept; the oldest go first
-- ARGV[4]  max_age    for how many milliseconds they are kept
-- ARGV[5]  reason     one word
-- ARGV[6]  detail     a sentence
-- ARGV[7]  attempt    which attempt this was
-- ARGV[8]  where      host/pid/worker id
-- ARGV[9]  output     what its process wrote; empty: the letter has no such field
--
-- Returns an array: 1, or 0 when the slot owned nothing any more, or -1 when the key of the dead letters
-- holds another type, or another program's entries (then nothing was moved), the number of older dead letters that had to go,
-- and the id of the dead letter, or an empty text.
-- Errors  STALE  another call was to come before this one, this one comes too late, or which one came
--                last is not known and this is not the first; nothing was done.

--! include stale
--! include letters
--! include tracked
--! include record

local seq = tonumber(ARGV[1])
local refused = out_of_order(KEYS[2], seq)
if refused then
  return refused
end
local before, failed = count_letters(KEYS[3])
if failed then
  return failed
end
redis.call('HLEN', KEYS[4])

local message = redis.call('HGET', KEYS[1], ARGV[2])
redis.call('HDEL', KEYS[1], ' ') -- nobody's field: the first write needs no memory, and the last one is allowed
if not message or not before then
  redis.call('HSET', KEYS[2], 'seq', seq)
  return { message and -1 or 0, 0, '' }
end
local options, queue = options_of(message), string.sub(KEYS[3], 1, -6)
refused = outbox_error(queue, options)
if refused then
  return refused
end
-- Written before the field is removed, so that a refused dead letter loses nothing.
local letter = { 'message', message, 'reason', ARGV[5], 'detail', ARGV[6], 'attempt', ARGV[7], 'worker', ARGV[8] }
if ARGV[9] ~= '' then
  letter[#letter + 1] = 'output'
  letter[#letter + 1] = ARGV[9]
end
local now = redis.call('TIME')
redis.call('XTRIM', KEYS[3], 'MINID', math.max(0, now[1] * 1000 - tonumber(ARGV[4])))
local id = redis.call('XADD', KEYS[3], 'MAXLEN', ARGV[3], '*', unpack(letter))
redis.call('HDEL', KEYS[1], ARGV[2])
redis.call('HDEL', KEYS[4], redis.sha1hex(message))
redis.call('HSET', KEYS[2], 'seq', seq)
if options then
  redis.pcall('ZREM', queue .. '_cancelled', options.i)
  note_end(queue, options, now[1] * 1000 + math.floor(now[2] / 1000),
    ARGV[5] == 'expired' and ARGV[5] or 'dead', 'reason', ARGV[5], 'error', ARGV[6], 'attempt', ARGV[7], 'letter', id,
    'slot', ARGV[2])
end
return { 1, before + 1 - redis.call('XLEN', KEYS[3]), id }
