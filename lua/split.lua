-- split: finish a batch whose run failed for some of its items, and make a message of each of those.
--
-- An item is moved to the timetable, to be retried after its backoff, or to the tail of the queue, or to the dead letters.
-- If the timetable or the dead letters cannot take it, because their key holds another type or the right is missing, it is
-- moved to the queue instead, so that it is not lost: there it fails alone, and is settled as any other call.
--
-- KEYS[1]  processing     HASH    wire id -> the message that this slot owns
-- KEYS[2]  worker         HASH    seq: the number of the last call that was applied
-- KEYS[3]  deaths         HASH    SHA-1 of a message -> deaths of processes that owned it
-- KEYS[4]  queue          LIST    waiting messages, oldest first
-- KEYS[5]  notifications  LIST    one token for each waiting message
-- KEYS[6]  due            ZSET    the timetable: `c` and an id -> when the call is due, in milliseconds since 1970
-- KEYS[7]  later          HASH    id -> the message of a call in the timetable
-- KEYS[8]  timetable      STRING  the process that moves what is due; expires
-- KEYS[9]  dead           STREAM  dead letters, oldest first
-- ARGV[1]  seq        the number of this call: one more than the last that was applied
-- ARGV[2]  wire id    of the slot
-- ARGV[3]  max_count  how many dead letters are kept; the oldest go first
-- ARGV[4]  max_age    for how many milliseconds they are kept
-- ARGV[5]  where      host/pid/worker id
-- ARGV[…]  for each item that failed: its id in the timetable (16 bytes; empty: it does not go there), after how many
--          milliseconds it is due, why it becomes a dead letter, which attempt this was (0: it does not become one), and
--          its message
--
-- Returns an array: 1, or 0 when the slot owned nothing any more, the number of older dead letters that had to go, and an
-- array: for each item that was to become a dead letter the id of that, or an empty text when it is in the queue.
-- Errors  STALE  another call was to come before this one, this one comes too late, or which one came
--                last is not known and this is not the first; nothing was done.

--! include stale
--! include now
--! include letters

local FIRST, FIELDS = 6, 5
local seq = tonumber(ARGV[1])
local refused = out_of_order(KEYS[2], seq)
if refused then
  return refused
end
local before, failed = count_letters(KEYS[9])
if failed then
  return failed
end
local suspects = redis.call('HLEN', KEYS[3])
redis.call('LLEN', KEYS[4])
redis.call('LLEN', KEYS[5])
local old = redis.call('HGET', KEYS[1], ARGV[2])
redis.call('HDEL', KEYS[1], ' ') -- nobody's field: the first write needs no memory, and the last one is allowed
redis.call('HSET', KEYS[1], ' ', '') -- the rights to what comes last
redis.call('HDEL', KEYS[1], ' ')
if not old then
  redis.call('HSET', KEYS[2], 'seq', seq)
  return { 0, 0, {} }
end
local now, letters, added, earliest = now_ms(), {}, 0, nil
local first = redis.pcall('ZRANGE', KEYS[6], 0, 0, 'WITHSCORES')
if before then
  redis.pcall('XTRIM', KEYS[9], 'MINID', math.max(0, now - tonumber(ARGV[4])))
end

-- Returns whether the timetable has taken the item.
local function put_later(id, due, message)
  local put = first.err or redis.pcall('HEXISTS', KEYS[7], id) ~= 0 or redis.pcall('ZADD', KEYS[6], due, 'c' .. id)
  if type(put) ~= 'number' then
    return false
  end
  if type(redis.pcall('HSET', KEYS[7], id, message)) ~= 'number' then
    redis.pcall('ZREM', KEYS[6], 'c' .. id)
    return false
  end
  earliest = math.min(earliest or due, due)
  return true
end

-- Returns the id of the dead letter, or an empty text.
local function bury(detail, attempt, message)
  local id = before and redis.pcall('XADD', KEYS[9], 'MAXLEN', ARGV[3], '*', 'message', message, 'reason', 'failed', 'detail',
    detail, 'attempt', attempt, 'worker', ARGV[5])
  if type(id) ~= 'string' then
    return ''
  end
  added = added + 1
  return id
end

local function push(message)
  redis.call('RPUSH', KEYS[4], message)
  redis.pcall('RPUSH', KEYS[5], '1') -- else a sweeper makes it
end

for i = FIRST, #ARGV, FIELDS do -- first, because the right to do it may be missing
  if ARGV[i] == '' and ARGV[i + 3] == '0' then
    push(ARGV[i + 4])
  end
end
for i = FIRST, #ARGV, FIELDS do
  local id, delay, detail, attempt, message = unpack(ARGV, i, i + FIELDS - 1)
  if id ~= '' and not put_later(id, now + tonumber(delay), message) then
    push(message)
  elseif attempt ~= '0' then
    letters[#letters + 1] = bury(detail, attempt, message)
    if letters[#letters] == '' then
      push(message)
    end
  end
end
if earliest and (not first[2] or earliest < tonumber(first[2])) and type(redis.pcall('GET', KEYS[8])) == 'string' then
  redis.pcall('UNLINK', KEYS[8])
end
if suspects > 0 then
  redis.call('HDEL', KEYS[3], redis.sha1hex(old))
end
redis.call('HDEL', KEYS[1], ARGV[2])
redis.call('HSET', KEYS[2], 'seq', seq)
return { 1, before and before + added - redis.call('XLEN', KEYS[9]) or 0, letters }
