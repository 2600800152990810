-- cancel: remove calls from the timetable for good, or mark them, so that workers drop them when claimed.
--
-- A worker that is running such a call gets a kill request instead. A mark is removed when the call is dropped,
-- or after 30 days.
--
-- KEYS[1]  due        ZSET  the timetable: `c` and an id -> when the call is due, in milliseconds since 1970
-- KEYS[2]  later      HASH  id -> the message of a call in the timetable
-- KEYS[3]  cancelled  ZSET  id -> when a waiting call was cancelled, in milliseconds since 1970
-- ARGV[1]  queue      its name, with which the keys of records and locks begin
-- ARGV[2]  by         who cancels
-- ARGV[…]  ids (16 bytes each), at most 500
--
-- Returns an array: for each call `scheduled` or `retrying` when it was in the timetable, else the state that its record
-- has, or an empty text without one. Unless that is how it ended, the call is marked.

--! include now
--! include tracked
--! include record

local queue, by, now = ARGV[1], ARGV[2], now_ms()
redis.call('ZCARD', KEYS[1])
redis.call('HLEN', KEYS[2])
local is_ours = holds_ids(KEYS[3]) -- else nothing is removed from it
if is_ours then
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - LIFE)
end
redis.call('ZREM', KEYS[1], ' ') -- no such entry: fails before any write if this user lacks the right
redis.call('HDEL', KEYS[2], ' ')
redis.call('ZADD', KEYS[3], 'XX', 0, ' ')
local found = {}
for i = 3, #ARGV do
  local id = ARGV[i]
  local message = redis.call('HGET', KEYS[2], id)
  local record = redis.pcall('HGET', record_of(queue, id), 'state')
  local state = type(record) == 'string' and record or ''
  local options = message and options_of(message) or {}
  local refused = outbox_error(queue, options)
  if refused then
    return refused
  end
  redis.call('ZREM', KEYS[1], 'c' .. id)
  if redis.call('HDEL', KEYS[2], id) == 1 then
    options.i = id
    state = state == 'retrying' and state or 'scheduled'
    redis.pcall('ZREM', KEYS[3], id) -- of a cancellation before this one
    note_end(queue, options, now, 'cancelled', 'by', by)
  elseif not ENDED[state] then
    redis.call('ZADD', KEYS[3], now, id)
    if is_ours then
      redis.pcall('PEXPIRE', KEYS[3], LIFE)
    end
    if state == 'scheduled' or state == 'retrying' then -- the record is late
      state = 'waiting'
    end
    if state ~= '' then
      redis.pcall('HSET', record_of(queue, id), 'by', by)
    end
  end
  found[#found + 1] = state
end
return found
