-- schedule: put calls into the timetable, to run when they are due.
--
-- If the first of these calls is due before all others, the processes that move calls are notified, and the
-- lease of the process that holds the timetable is revoked, because that process may sleep for longer.
--
-- KEYS[1]  due        ZSET    the timetable: `c` and an id -> when the call is due, in milliseconds since 1970
-- KEYS[2]  later      HASH    id -> the message of a call in the timetable
-- KEYS[3]  timetable  STRING  the process that moves what is due; expires
-- ARGV[1]  channel  on which those processes listen
-- ARGV[…]  for each call, at most 500: its id (16 bytes), when it is due (milliseconds since 1970, or `+` and milliseconds
--          from now; what has passed is now), and its message
--
-- Returns an array: for each call when it is due, in milliseconds since 1970, or 0 when the timetable has its id already:
-- then that call was not scheduled.

--! include now

local now = now_ms()
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
redis.call('HLEN', KEYS[2])
local earliest = nil
local dues = {}
for i = 2, #ARGV, 3 do
  local id, due = ARGV[i], ARGV[i + 1]
  due = math.max(now, string.sub(due, 1, 1) == '+' and now + tonumber(string.sub(due, 2)) or tonumber(due))
  if redis.call('HEXISTS', KEYS[2], id) == 1 then
    due = 0
  else
    redis.call('ZADD', KEYS[1], due, 'c' .. id)
    redis.call('HSET', KEYS[2], id, ARGV[i + 2])
    earliest = math.min(earliest or due, due)
  end
  dues[#dues + 1] = due
end
if earliest and (not first[2] or earliest < tonumber(first[2])) then
  if type(redis.pcall('GET', KEYS[3])) == 'string' then -- else it is not there, or somebody else's key
    redis.call('UNLINK', KEYS[3])
  end
  redis.pcall('PUBLISH', ARGV[1], earliest - now) -- without the right, the next beat finds it
end
return dues
