-- reopen: let a flow that failed or was cancelled go on, in two steps.
--
-- The first takes a new round for the steps that are run again; while the flow is open in that way, no outcome counts.
-- Between the two the caller forgets what those steps and the nodes above them had come to. The second lets outcomes
-- count again, and notes in the outbox that the flow is to be opened.
--
-- KEYS[1]  flow    HASH  its tree and what is known of it
-- KEYS[2]  outbox  HASH  what is to be done -> since when, in milliseconds since 1970
-- KEYS[3]  flows   ZSET  id of a flow -> when it is forgotten, in milliseconds since 1970
-- ARGV[1]  queue   its name, with which the keys of records and locks begin
-- ARGV[2]  id      of the flow (16 bytes)
-- ARGV[3]  round   that the first step returned; 0: this is the first
--
-- Returns the round, or 0 if the flow succeeded, goes on, or is not known, or another caller has begun a round since.

--! include now
--! include record

local state, round = unpack(redis.call('HMGET', KEYS[1], 'state', 'round'))
redis.call('HLEN', KEYS[2])
redis.call('ZCARD', KEYS[3])
if not state or state == 'succeeded' then
  return 0
end
if ARGV[3] == '0' then
  redis.call('HSET', KEYS[1], 'state', 'reopening')
  return redis.call('HINCRBY', KEYS[1], 'round', 1)
end
if state ~= 'reopening' or round ~= ARGV[3] then
  return 0
end
local now = now_ms()
redis.call('HDEL', KEYS[1], 'state', 'ended', 'failed', 'o0')
redis.call('HSET', KEYS[2], ARGV[2] .. 'o' .. struct.pack('>I4', 0), now)
redis.call('PEXPIRE', KEYS[1], LIFE)
redis.call('ZADD', KEYS[3], now + LIFE, ARGV[2])
redis.pcall('HDEL', record_of(ARGV[1], ARGV[2]), 'ended', 'reason', 'error', 'by')
note_state(ARGV[1], ARGV[2], 'running')
return tonumber(round)
