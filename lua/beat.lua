-- beat: renew a worker's lease and the live keys of the slots that own something, and take its orders.
--
-- PEXPIRE is the first write: it needs no memory, after which a full Redis lets the rest of the
-- script run. A worker must not look dead because Redis is full.
--
-- KEYS[1]  worker   HASH    info: who this is
-- KEYS[2]  workers  ZSET    worker id -> the time in milliseconds at which its lease ends
-- KEYS[3]  orders   HASH    wire id -> the order to end what this slot runs, as kill writes it
-- KEYS[…]  the live keys of slots, at most 1000  STRING
-- ARGV[1]  lease      in milliseconds
-- ARGV[2]  worker id
-- ARGV[3]  info       MessagePack, as docs/protocol.md has it
--
-- Returns an array of the orders that stood there: wire id, order, wire id, order, …

redis.call('HLEN', KEYS[1]) -- PEXPIRE would take any type
redis.call('ZCARD', KEYS[2])
local orders = redis.call('HGETALL', KEYS[3])

local lease = tonumber(ARGV[1])
local known = redis.call('PEXPIRE', KEYS[1], 4 * lease)
redis.call('HSET', KEYS[1], 'info', ARGV[3])
if known == 0 then
  redis.call('PEXPIRE', KEYS[1], 4 * lease)
end
local now = redis.call('TIME')
redis.call('ZADD', KEYS[2], now[1] * 1000 + math.floor(now[2] / 1000) + lease, ARGV[2])
for i = 4, #KEYS do
  redis.call('SET', KEYS[i], '1', 'PX', lease)
end
if #orders > 0 then
  redis.call('UNLINK', KEYS[3])
end
return orders
