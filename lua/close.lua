-- close: end a flow, once, and record how it ended.
--
-- A flow that is cancelled leaves its steps in the outbox, so that they are cancelled too.
--
-- KEYS[1]  flow    HASH  its tree and what is known of it
-- KEYS[2]  outbox  HASH  what is to be done -> since when, in milliseconds since 1970
-- KEYS[3]  flows   ZSET  id of a flow -> when it is forgotten, in milliseconds since 1970
-- ARGV[1]  queue   its name, with which the keys of records and locks begin
-- ARGV[2]  id      of the flow (16 bytes)
-- ARGV[3]  state   in which it ended
-- ARGV[…]  names and values of further fields of its record
--
-- Returns 1, or 0 if it had ended, or is not known.

--! include now
--! include tracked
--! include record

local keep, state = unpack(redis.call('HMGET', KEYS[1], 'keep', 'state'))
redis.call('HLEN', KEYS[2])
redis.call('ZCARD', KEYS[3])
if not keep or state then
  return 0
end
local now, call = now_ms(), { i = ARGV[2], s = tonumber(keep) }
call.u = redis.call('HGET', KEYS[1], 'lock')
redis.call('HDEL', KEYS[2], ' ') -- nobody's field: the first write needs no memory, and the last one is allowed
redis.call('ZADD', KEYS[3], 'XX', 0, ' ')
redis.call('PEXPIRE', KEYS[1], call.s) -- what may be refused comes before what cannot be done again
redis.call('HSETNX', KEYS[1], 'o0', ARGV[3])
redis.call('HSET', KEYS[1], 'state', ARGV[3], 'ended', now)
if ARGV[3] == 'cancelled' then
  redis.call('HSET', KEYS[2], ARGV[2] .. 'x' .. struct.pack('>I4', 0), now)
end
redis.call('ZADD', KEYS[3], now + call.s, ARGV[2])
note_end(ARGV[1], call, now, ARGV[3], unpack(ARGV, 4))
return 1
