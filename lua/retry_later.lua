-- retry_later: move a message from its slot to the timetable, to be retried after its backoff.
--
-- The message carries an id, under which the timetable keeps it. If the timetable already has that id, or one of its
-- keys holds another type, nothing is moved, and the caller retries the message at once instead. A run that ended
-- took no process down, and the message has different bytes now, so the deaths of the old bytes are forgotten. If the
-- holder of the timetable does not know of an entry before this one, its lease is revoked. The keys of a record and a
-- lock begin with the queue's name, which is that of the timetable without its suffix.
--
-- KEYS[1]  processing  HASH    wire id -> the message that this slot owns
-- KEYS[2]  worker      HASH    seq: the number of the last call that was applied
-- KEYS[3]  deaths      HASH    SHA-1 of a message -> deaths of processes that owned it
-- KEYS[4]  due         ZSET    the timetable: `c` and an id -> when the call is due, in milliseconds since 1970
-- KEYS[5]  later       HASH    id -> the message of a call in the timetable
-- KEYS[6]  timetable   STRING  the process that moves what is due; expires
-- ARGV[1]  seq      the number of this call: one more than the last that was applied
-- ARGV[2]  wire id  of the slot
-- ARGV[3]  message  for the next attempt
-- ARGV[4]  id       of the call: 16 bytes
-- ARGV[5]  delay    in milliseconds
-- ARGV[6]  errors   of the failed attempts, for the record; empty: none, or there is no record
--
-- Returns 1, or 0 when the slot owned nothing any more, or -1 when the timetable cannot take the message: then nothing
-- was moved.
-- Errors  STALE  another call was to come before this one, this one comes too late, or which one came
--                last is not known and this is not the first; nothing was done.

--! include stale
--! include now
--! include tracked
--! include record

local seq = tonumber(ARGV[1])
local refused = out_of_order(KEYS[2], seq)
if refused then
  return refused
end
local member = 'c' .. ARGV[4]
local found = redis.pcall('ZSCORE', KEYS[4], member)
local kept = redis.pcall('HEXISTS', KEYS[5], ARGV[4])
for _, reply in ipairs({ found, kept }) do
  if type(reply) == 'table' and not string.find(reply.err, 'WRONGTYPE', 1, true) then
    return reply
  end
end
local holder = redis.pcall('GET', KEYS[6]) -- not a text: somebody else's key
local suspects = redis.call('HLEN', KEYS[3])
local old = redis.call('HGET', KEYS[1], ARGV[2])
redis.call('HDEL', KEYS[1], ' ') -- nobody's field: the first write needs no memory, and the last one is allowed
local moved = old and 1 or 0
if old and (found or kept ~= 0) then
  moved = -1
elseif old then
  local due = now_ms() + tonumber(ARGV[5])
  local first = redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')
  redis.call('HDEL', KEYS[5], ' ') -- the right to write it, before the time without a message is there
  redis.call('ZADD', KEYS[4], due, member)
  redis.call('HSET', KEYS[5], ARGV[4], ARGV[3])
  if type(holder) == 'string' and (not first[2] or due < tonumber(first[2])) then
    redis.call('UNLINK', KEYS[6])
  end
  if suspects > 0 then
    redis.call('HDEL', KEYS[3], redis.sha1hex(old))
  end
  redis.call('HDEL', KEYS[1], ARGV[2])
  local options, queue = options_of(ARGV[3]), string.sub(KEYS[5], 1, -7)
  if options then
    local left = tonumber(ARGV[5]) + LIFE
    note_state(queue, options.i, 'retrying', 'due', due, 'slot', ARGV[2])
    if ARGV[6] ~= '' then
      note_state(queue, options.i, 'retrying', 'errors', ARGV[6])
    end
    redis.pcall('PEXPIRE', record_of(queue, options.i), left)
    if options.u and string.find(options.u, '^[do]') then
      redis.pcall('PEXPIRE', key_of_lock(queue, options.u), tonumber(ARGV[5]) + LOCK_LIFE)
    end
  end
end
redis.call('HSET', KEYS[2], 'seq', seq)
return moved
