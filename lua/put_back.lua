-- put_back: move messages from their slots back to the queue, unchanged.
--
-- To the head when a worker shuts down, could have no process for them, or has claimed them ahead of a
-- run that takes long: they have waited longest, and no attempt is counted. To the tail when their tasks
-- are another worker's, so that it gets at them and we do not spin.
--
-- KEYS[1]  queue          LIST  waiting messages, oldest first
-- KEYS[2]  notifications  LIST  one token for each waiting message
-- KEYS[3]  processing     HASH  wire id -> the message that this slot owns
-- KEYS[4]  worker         HASH  seq: the number of the last call that was applied
-- ARGV[1]  seq    the number of this call: one more than the last that was applied
-- ARGV[2]  place  head or tail
-- ARGV[…]  wire ids, oldest claim first; the caller sends at most 1000
--
-- Returns the number of messages that were put back; the other slots owned nothing any more.
-- Errors  STALE  another call was to come before this one, this one comes too late, or which one came
--                last is not known and this is not the first; nothing was done.

local seq = tonumber(ARGV[1])
local last = redis.call('HGET', KEYS[4], 'seq')
if tonumber(last or 0) ~= seq - 1 then
  local known = last and (last .. ' was applied last') or 'none is known'
  return redis.error_reply('STALE this is not the next call of this worker: ' .. known)
end
redis.call('LLEN', KEYS[1])
redis.call('LLEN', KEYS[2])

local first, last, step, push = 3, #ARGV, 1, 'RPUSH'
if ARGV[2] == 'head' then
  first, last, step, push = #ARGV, 3, -1, 'LPUSH'
end
local count = 0
redis.call('HDEL', KEYS[3], ' ') -- nobody's field: the first write needs no memory, and the last one is allowed
for i = first, last, step do
  local message = redis.call('HGET', KEYS[3], ARGV[i])
  if message then
    redis.call(push, KEYS[1], message)
    redis.call(push, KEYS[2], '1')
    redis.call('HDEL', KEYS[3], ARGV[i])
    count = count + 1
  end
end
redis.call('HSET', KEYS[4], 'seq', seq)
return count
