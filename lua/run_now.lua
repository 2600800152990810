-- run_now: move calls from the timetable to the tail of the queue before they are due.
--
-- KEYS[1]  queue          LIST  waiting messages, oldest first
-- KEYS[2]  notifications  LIST  one token for each waiting message
-- KEYS[3]  due            ZSET  the timetable: `c` and an id -> when the call is due, in milliseconds since 1970
-- KEYS[4]  later          HASH  id -> the message of a call in the timetable
-- ARGV[…]  ids (16 bytes each), at most 500
--
-- Returns how many of them were scheduled, and wait now.

--! include record

redis.call('LLEN', KEYS[1])
redis.call('LLEN', KEYS[2])
redis.call('ZREM', KEYS[3], ' ') -- nobody's entry: the first write needs no memory, and the last ones are allowed
redis.call('HDEL', KEYS[4], ' ')
local count = 0
for _, id in ipairs(ARGV) do
  local message = redis.call('HGET', KEYS[4], id)
  if message then
    redis.call('RPUSH', KEYS[1], message)
    redis.call('RPUSH', KEYS[2], '1')
    redis.call('HDEL', KEYS[4], id)
    count = count + 1
  end
  redis.call('ZREM', KEYS[3], 'c' .. id)
  if message then
    note_state(KEYS[1], id, 'waiting')
  end
end
return count
