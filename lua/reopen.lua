-- reopen: let a flow that failed or was cancelled go on, in three steps.
--
-- The first takes a new round for the steps that are run again. The second, repeated, forgets what those steps and the
-- nodes above them had come to; meanwhile no outcome counts. The last lets outcomes count again, and notes in the outbox
-- that the flow is to be opened, or ended if all its steps had succeeded before it was cancelled.
--
-- KEYS[1]  flow    HASH  its tree and what is known of it
-- KEYS[2]  outbox  HASH  what is to be done -> since when, in milliseconds since 1970
-- KEYS[3]  flows   ZSET  id of a flow -> when it is forgotten, in milliseconds since 1970
-- ARGV[1]  queue   its name, with which the keys of records and locks begin
-- ARGV[2]  id      of the flow (16 bytes)
-- ARGV[3]  round   that the first step returned; 0: this is the first
-- ARGV[4]  count   of fields to forget, in the second step
-- ARGV[…]  those fields, and names and values of fields to set: a thousand, or a few more
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
  local began = redis.call('HINCRBY', KEYS[1], 'round', 1)
  redis.call('HSET', KEYS[1], 'state', 'reopening')
  return began
end
if state ~= 'reopening' or round ~= ARGV[3] then
  return 0
end
if ARGV[4] then
  local first = 5 + tonumber(ARGV[4])
  for i = 5, first - 1 do
    redis.call('HDEL', KEYS[1], ARGV[i])
  end
  for i = first, #ARGV, 2 do
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
  return tonumber(round)
end
local now, is_complete = now_ms(), redis.call('HGET', KEYS[1], 'o0') == 'succeeded'
redis.call('HDEL', KEYS[2], ' ') -- nobody's field: the first write needs no memory, and the last one is allowed
redis.call('ZADD', KEYS[3], now + LIFE, ARGV[2])
redis.call('PEXPIRE', KEYS[1], LIFE)
redis.call('HSET', KEYS[2], ARGV[2] .. (is_complete and 'e' or 'o') .. struct.pack('>I4', 0), now)
if not is_complete then
  redis.call('HDEL', KEYS[1], 'o0')
end
redis.call('HDEL', KEYS[1], 'state', 'ended', 'failed')
redis.pcall('HDEL', record_of(ARGV[1], ARGV[2]), 'ended', 'reason', 'error', 'by')
note_state(ARGV[1], ARGV[2], 'running')
return tonumber(round)
