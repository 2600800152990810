-- reconcile: find out what became of calls whose replies were lost, and refuse those still on their way.
--
-- Stores a number far beyond theirs, so that one that arrives later is STALE, and answers what was
-- applied and what each slot owns now.
--
-- KEYS[1]  processing  HASH  wire id -> the message that this slot owns
-- KEYS[2]  worker      HASH  seq: the number of the last call that was applied
-- ARGV[1]  seq  the number of this call, beyond any before; the next call of the worker is one more
-- ARGV[2]  lease in milliseconds, for the worker's hash
-- ARGV[…]  the wire ids of the slots in question, at least one; the caller sends at most 1000
--
-- Returns an array: the number of the last call that was applied (-1 when Redis does not know), then
-- the message of each slot, or nil.

redis.call('PEXPIRE', KEYS[2], 4 * tonumber(ARGV[2])) -- first: needs no memory
local applied = redis.call('HGET', KEYS[2], 'seq') or -1
redis.call('HSET', KEYS[2], 'seq', ARGV[1])
redis.call('PEXPIRE', KEYS[2], 4 * tonumber(ARGV[2]))
return { tonumber(applied), unpack(redis.call('HMGET', KEYS[1], unpack(ARGV, 3))) }
