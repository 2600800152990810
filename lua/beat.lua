-- beat: renew a worker's lease, and the live keys of the slots that own something.
--
-- PEXPIRE is the first write: it needs no memory, after which a full Redis lets the rest of the
-- script run. A worker must not look dead because Redis is full.
--
-- KEYS[1]  worker   HASH    info: who this is
-- KEYS[2]  workers  ZSET    worker id -> the time in milliseconds at which its lease ends
-- KEYS[…]  the live keys of slots, at most 1000  STRING
-- ARGV[1]  lease      in milliseconds
-- ARGV[2]  worker id
-- ARGV[3]  info       MessagePack, as docs/protocol.md has it
--
-- Returns 1.

redis.call('HLEN', KEYS[1]) -- PEXPIRE would take any type
redis.call('ZCARD', KEYS[2])

local lease = tonumber(ARGV[1])
redis.call('PEXPIRE', KEYS[1], 4 * lease)
redis.call('HSET', KEYS[1], 'info', ARGV[3])
redis.call('PEXPIRE', KEYS[1], 4 * lease)
local now = redis.call('TIME')
redis.call('ZADD', KEYS[2], now[1] * 1000 + math.floor(now[2] / 1000) + lease, ARGV[2])
for i = 3, #KEYS do
  redis.call('SET', KEYS[i], '1', 'PX', lease)
end
return 1
