-- beat: renew a worker's lease and the live keys of its slots that own messages, and take its kill requests.
--
-- It also checks whether a sweep may find anything, so that an idle worker does not have to ask.
--
-- PEXPIRE is the first write: it needs no memory, and after it a full Redis lets the rest of the script run. A worker
-- must not look dead because Redis is full.
--
-- KEYS[1]  worker   HASH    info: who this is
-- KEYS[2]  workers  ZSET    worker id -> the time in milliseconds at which its lease ends
-- KEYS[3]  orders   HASH    wire id -> the order to end what this slot runs, as kill writes it
-- KEYS[4]  queue          LIST  waiting messages, oldest first
-- KEYS[5]  notifications  LIST  one token for each waiting message
-- KEYS[6]  hand           LIST  tokens that workers were woken with, until their claims come
-- KEYS[7]  processing     HASH  wire id -> the message that this slot owns
-- KEYS[8]  deaths         HASH  messages that died with their workers
-- KEYS[9]  due            ZSET  calls that are to run later
-- KEYS[10]  paused        STRING  since when, in milliseconds since 1970, a space, and by whom
-- KEYS[11]  outbox        HASH  what is to be done for flows
-- KEYS[…]  the live keys of slots, at most 1000  STRING
-- ARGV[1]  lease      in milliseconds
-- ARGV[2]  worker id
-- ARGV[3]  info       MessagePack, as docs/protocol.md has it
-- ARGV[4]  forget     milliseconds after the end of its lease at which a worker is forgotten
--
-- Returns an array: first the sum of 1 when a sweep may find something (one of the queue's keys is there, or a worker is
-- to be forgotten), 2 when the hand and 4 when the notifications begin with something else than a token, as another
-- program's list, and 8 when the queue is paused; in that case what stands in `paused`; then the orders that stood
-- there: wire id, order, wire id, order, …

--! include now
--! include paused

redis.call('HLEN', KEYS[1]) -- PEXPIRE would take any type
local orders = redis.call('HGETALL', KEYS[3])
local now = now_ms()
local found = redis.call('EXISTS', KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[11])
  + redis.call('ZCOUNT', KEYS[2], '-inf', now - ARGV[4])

local function is_foreign(key)
  local first = redis.pcall('LINDEX', key, 0) -- a key of another type is told of elsewhere
  return type(first) == 'string' and first ~= '1'
end

local lease = tonumber(ARGV[1])
local known = redis.call('PEXPIRE', KEYS[1], 4 * lease)
redis.call('HSET', KEYS[1], 'info', ARGV[3])
if known == 0 then
  redis.call('PEXPIRE', KEYS[1], 4 * lease)
end
redis.call('ZADD', KEYS[2], now + lease, ARGV[2])
for i = 12, #KEYS do
  redis.call('SET', KEYS[i], '1', 'PX', lease)
end
if #orders > 0 then
  redis.call('UNLINK', KEYS[3])
end
local foreign = (is_foreign(KEYS[6]) and 2 or 0) + (is_foreign(KEYS[5]) and 4 or 0)
local paused = find_pause(KEYS[10])
if paused then
  table.insert(orders, 1, paused)
end
table.insert(orders, 1, (found > 0 and 1 or 0) + foreign + (paused and 8 or 0))
return orders
