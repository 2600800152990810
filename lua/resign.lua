-- resign: end a worker's lease, so that messages which it still owns are requeued at once.
--
-- For a while, the worker keeps a number that none of its calls can follow. A claim that is still in flight is
-- then STALE: nobody would run the messages that it took.
--
-- KEYS[1]  worker   HASH  who this is, and its last call
-- KEYS[2]  workers  ZSET  worker id -> the time in milliseconds at which its lease ends
-- KEYS[3]  orders   HASH  wire id -> an order to end what this slot runs
-- KEYS[…]  the live keys of its slots, at most 1000  STRING
-- ARGV[1]  worker id
-- ARGV[2]  lease      in milliseconds
--
-- Returns 1 when the worker was known, else 0.

local LAST = '4503599627370496' -- 2^52

redis.call('HLEN', KEYS[1]) -- UNLINK would take any type
redis.call('ZCARD', KEYS[2])
redis.call('HLEN', KEYS[3])

redis.call('UNLINK', KEYS[1], KEYS[3]) -- the first write needs no memory
for i = 4, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
redis.call('HSET', KEYS[1], 'seq', LAST)
redis.call('PEXPIRE', KEYS[1], 4 * tonumber(ARGV[2]))
return redis.call('ZREM', KEYS[2], ARGV[1])
