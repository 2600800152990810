-- cancel: take calls out of the timetable, for good.
--
-- KEYS[1]  due    ZSET  the timetable: `c` and an id -> when the call is due, in milliseconds since 1970
-- KEYS[2]  later  HASH  id -> the message of a call in the timetable
-- ARGV[…]  ids (16 bytes each), at most 500
--
-- Returns how many of them were scheduled.

redis.call('ZCARD', KEYS[1])
redis.call('HLEN', KEYS[2])
redis.call('HDEL', KEYS[2], ' ') -- nobody's entry: whoever may not write it changes nothing
local count = 0
for _, id in ipairs(ARGV) do
  redis.call('ZREM', KEYS[1], 'c' .. id)
  count = count + redis.call('HDEL', KEYS[2], id)
end
return count
