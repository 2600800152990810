-- pick_up: move the oldest message into a free slot, behind a wait that left its token in the hand.
--
-- What wakes an idle worker is one message, as a rule. `claim` would move it too, by more commands, and a Redis
-- that was idle itself takes its time for each. Also called when the wait has ended without a token: then it
-- takes one from the notifications, if there is one. Where nothing waits, it drops the tokens that are left.
--
-- KEYS[1]  queue          LIST    waiting messages, oldest first
-- KEYS[2]  notifications  LIST    one token for each waiting message
-- KEYS[3]  processing     HASH    wire id -> the message that this slot owns
-- KEYS[4]  worker         HASH    seq: the number of the last call that was applied
-- KEYS[5]  deaths         HASH    SHA-1 of a message -> deaths of processes that owned it
-- KEYS[6]  hand           LIST    tokens that workers were woken with, until their claims come
-- ARGV[1]  seq      the number of this call: one more than the last that was applied
-- ARGV[2]  lease    milliseconds that the live key is good for
-- ARGV[3]  wire id  of the free slot
--
-- Returns an array as `claim` does: 0, how many messages still wait, 0 without suspects, 1 with, 2 when the
-- message is a suspect that is to run alone, and an array of the message, if there is one.
-- Errors  STALE  another call was to come before this one, this one comes too late, which one came last
--                is not known and this is not the first, or the slot owns a message; nothing was done, and
--                what was taken is back.

local seq, id = tonumber(ARGV[1]), ARGV[3]
local last = redis.call('HGET', KEYS[4], 'seq')
if tonumber(last or 0) ~= seq - 1 then
  local known = last and (last .. ' was applied last') or 'none is known'
  return redis.error_reply('STALE this is not the next call of this worker: ' .. known)
end

local message
local waiting, suspects = redis.call('LLEN', KEYS[1]), math.min(1, redis.call('HLEN', KEYS[5]))
local from = waiting > 0 and (redis.call('LPOP', KEYS[6]) and KEYS[6] or redis.call('LPOP', KEYS[2]) and KEYS[2])
if waiting == 0 then
  redis.call('LLEN', KEYS[2]) -- UNLINK would take any type
  redis.call('LLEN', KEYS[6])
  redis.call('UNLINK', KEYS[2], KEYS[6]) -- as LPOP, the first write needs no memory
elseif from then
  message = redis.call('LPOP', KEYS[1])
  local new = redis.pcall('HSETNX', KEYS[3], id, message)
  if new ~= 1 then
    if type(redis.pcall('LPUSH', KEYS[1], message)) ~= 'number' then
      redis.call('RPUSH', KEYS[1], message) -- whoever lacks two rights
    end
    redis.pcall('LPUSH', from, '1') -- else a sweeper makes another
    return new == 0 and redis.error_reply('STALE a slot that should be free owns a message') or new
  end
  redis.call('SET', id, '1', 'PX', ARGV[2])
  waiting = waiting - 1
  if suspects == 1 then
    local deaths = redis.call('HGET', KEYS[5], redis.sha1hex(message))
    suspects = deaths and tonumber(string.match(deaths, '^%d+') or 0) >= 2 and 2 or 1
  end
end

redis.call('HSET', KEYS[4], 'seq', seq)
if not last then
  redis.call('PEXPIRE', KEYS[4], 4 * tonumber(ARGV[2])) -- a beat made it, or will renew it
end
return { 0, waiting, suspects, { message } }
