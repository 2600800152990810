-- resign: end a worker's lease, so that what it should still own is requeued at once.
--
-- KEYS[1]  worker   HASH  who this is
-- KEYS[2]  workers  ZSET  worker id -> the time in milliseconds at which its lease ends
-- KEYS[3]  orders   HASH  wire id -> an order to end what this slot runs
-- KEYS[…]  the live keys of its slots, at most 1000  STRING
-- ARGV[1]  worker id
--
-- Returns 1 when the worker was known, else 0.

redis.call('HLEN', KEYS[1]) -- UNLINK would take any type
redis.call('ZCARD', KEYS[2])
redis.call('HLEN', KEYS[3])

redis.call('UNLINK', KEYS[1], KEYS[3])
for i = 4, #KEYS do
  redis.call('UNLINK', KEYS[i])
end
return redis.call('ZREM', KEYS[2], ARGV[1])
