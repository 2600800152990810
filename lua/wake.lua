-- wake: give a limit back, and return which calls may run now.
--
-- KEYS[1]  policy   HASH  concurrency and rate: of what is not there, there may be any
-- KEYS[2]  holders  ZSET  a wire id, `#` and a number -> when this lease ends, in milliseconds since 1970
-- KEYS[3]  line     LIST  the SHA-1 of each message that waits, a space, and its queue
-- KEYS[4]  state    HASH  woken, since: see `line`
-- KEYS[5]  permits  ZSET  the SHA-1 of a message, a space, and when its token is free -> 0; expires
-- ARGV[1]  again   1 to be told again of calls that were told to come and have not, else 0
-- ARGV[2]  count   how many holders give the limit back
-- ARGV[…]  for each of these, at most 100: who holds it, and the SHA-1 of its message when its token was not used, else an
--          empty text; then the entries of calls that were told to come and are nowhere to be found, at most 100
--
-- Returns an array: how many calls wait, and the entries of those that may run now.

--! include now
--! include line

local FIRST, PERMIT_LIFE = 3, 3600000 -- milliseconds for which a token is kept
local now, count = now_ms(), tonumber(ARGV[2])
local policy = redis.call('HMGET', KEYS[1], 'concurrency', 'rate')
local most = capacity(policy[1])
redis.call('LLEN', KEYS[3])
redis.call('HLEN', KEYS[4])
redis.call('ZCARD', KEYS[5])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now) -- the first write needs no memory
local lost = FIRST + 2 * count
for i = FIRST, lost - 1, 2 do
  if redis.call('ZREM', KEYS[2], ARGV[i]) == 1 and policy[2] and ARGV[i + 1] ~= '' then
    redis.call('ZADD', KEYS[5], 0, ARGV[i + 1] .. string.format(' %017.3f', now))
    redis.call('PEXPIRE', KEYS[5], PERMIT_LIFE)
  end
end
local woken = woken_of(KEYS[4], now)
for i = lost, #ARGV do
  local place = woken > 0 and redis.call('LPOS', KEYS[3], ARGV[i], 'MAXLEN', woken)
  if place then
    redis.call('LREM', KEYS[3], 1, ARGV[i])
    woken = woken - 1
    redis.call('HSET', KEYS[4], 'woken', woken, 'since', now)
  end
end
local entries = wake_next(KEYS[3], KEYS[4], most - redis.call('ZCARD', KEYS[2]), now, ARGV[1] == '1')
return { redis.call('LLEN', KEYS[3]), unpack(entries) }
