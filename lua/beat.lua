-- beat: renew a worker's lease and the live keys of the slots that own something, and take its orders.
--
-- It also looks whether a sweep may find anything, so that an idle worker need not ask for that.
--
-- PEXPIRE is the first write: it needs no memory, after which a full Redis lets the rest of the
-- script run. A worker must not look dead because Redis is full.
--
-- KEYS[1]  worker   HASH    info: who this is
-- KEYS[2]  workers  ZSET    worker id -> the time in milliseconds at which its lease ends
-- KEYS[3]  orders   HASH    wire id -> the order to end what this slot runs, as kill writes it
-- KEYS[4]  queue          LIST  waiting messages, oldest first
-- KEYS[5]  notifications  LIST  one token for each waiting message
-- KEYS[6]  hand           LIST  tokens that workers were woken with, until their claims come
-- KEYS[7]  processing     HASH  wire id -> the message that this slot owns
-- KEYS[8]  deaths         HASH  messages that died with their workers
-- KEYS[…]  the live keys of slots, at most 1000  STRING
-- ARGV[1]  lease      in milliseconds
-- ARGV[2]  worker id
-- ARGV[3]  info       MessagePack, as docs/protocol.md has it
-- ARGV[4]  forget     milliseconds after the end of its lease at which a worker is forgotten
--
-- Returns an array: 1 when a sweep may find something, 0 when none of the queue's keys is there and no worker is
-- to be forgotten; then the orders that stood there: wire id, order, wire id, order, …

redis.call('HLEN', KEYS[1]) -- PEXPIRE would take any type
local orders = redis.call('HGETALL', KEYS[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.call('EXISTS', KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8])
  + redis.call('ZCOUNT', KEYS[2], '-inf', now - ARGV[4])

local lease = tonumber(ARGV[1])
local known = redis.call('PEXPIRE', KEYS[1], 4 * lease)
redis.call('HSET', KEYS[1], 'info', ARGV[3])
if known == 0 then
  redis.call('PEXPIRE', KEYS[1], 4 * lease)
end
redis.call('ZADD', KEYS[2], now + lease, ARGV[2])
for i = 9, #KEYS do
  redis.call('SET', KEYS[i], '1', 'PX', lease)
end
if #orders > 0 then
  redis.call('UNLINK', KEYS[3])
end
table.insert(orders, 1, found > 0 and 1 or 0)
return orders
