-- pick_up: move the oldest message into a free slot, behind a wait that left its token in the hand.
--
-- An idle worker is usually woken for one message. `claim` would move it, too, but with more commands, and a Redis
-- that was itself idle takes time for each. A pick-up also runs if the wait has ended without a token: then it takes
-- one from the notifications, if there is one. If no message waits, it drops the remaining tokens.
--
-- The wait pushes its token to the right end of the hand, and this script takes it from there, because a list of that
-- name may belong to another program. An entry that is not a token goes back.
--
-- KEYS[1]  queue          LIST    waiting messages, oldest first
-- KEYS[2]  notifications  LIST    one token for each waiting message
-- KEYS[3]  processing     HASH    wire id -> the message that this slot owns
-- KEYS[4]  worker         HASH    seq: the number of the last call that was applied
-- KEYS[5]  deaths         HASH    SHA-1 of a message -> deaths of processes that owned it, and the own
--                                 deaths of calls that wait, which go with the message into its slot
-- KEYS[6]  hand           LIST    tokens that workers were woken with, until their claims come
-- KEYS[7]  paused         STRING  since when, in milliseconds since 1970, a space, and by whom
-- KEYS[8]  cancelled      ZSET    id -> when a waiting call was cancelled
-- ARGV[1]  seq      the number of this call: one more than the last that was applied
-- ARGV[2]  lease    milliseconds that the live key is good for
-- ARGV[3]  wire id  of the free slot
--
-- Returns an array as `claim` does: 0, how many messages still wait, 0 without suspects, 1 with, 2 when the
-- message is a suspect that is to run alone, and an array of the message, if there is one; then
-- an array of 1, if its call was cancelled. Instead, a fifth value may be what stands in `paused`: the queue is
-- paused, nothing was claimed, and the token is where it was.
-- Errors  STALE  another call was to come before this one, this one comes too late, which one came last
--                is not known and this is not the first, or the slot owns a message; nothing was done, and
--                what was taken is back.

--! include stale
--! include paused
--! include marks

local seq, id = tonumber(ARGV[1]), ARGV[3]
local refused, last = out_of_order(KEYS[4], seq)
if refused then
  return refused
end

local paused, denied, is_marked = false, false, false
if redis.call('EXISTS', KEYS[7], KEYS[8]) > 0 then -- the queue is paused, or calls that wait are cancelled
  paused, denied = find_pause(KEYS[7])
  is_marked, denied = true, denied or marks_denied(KEYS[8])
end
if denied then
  return denied
end

local TOKEN, MOST = '1', 10000 -- and how many of them are dropped at a time

local function take(key, pop, push, other)
  local token = redis.call(pop, key)
  if token and token ~= TOKEN and type(redis.pcall(push, key, token)) ~= 'number' then
    redis.call(other, key, token) -- whoever lacks a right
  end
  return token == TOKEN and key
end

local message
local waiting, suspects = redis.call('LLEN', KEYS[1]), math.min(1, redis.call('HLEN', KEYS[5]))
local from = waiting > 0 and not paused and (take(KEYS[6], 'RPOP', 'RPUSH', 'LPUSH') or take(KEYS[2], 'LPOP', 'LPUSH', 'RPUSH'))
if waiting == 0 then
  local first, in_hand = redis.call('LINDEX', KEYS[2], 0), redis.call('LINDEX', KEYS[6], 0)
  redis.call('HDEL', KEYS[3], ' ') -- nobody's field: as RPOP, the first write needs no memory
  if first == TOKEN then
    redis.call('LREM', KEYS[2], MOST, TOKEN)
  end
  if in_hand == TOKEN then
    redis.call('LREM', KEYS[6], MOST, TOKEN)
  end
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
    --! include deaths
    --! include suspects
    local digest = redis.sha1hex(message)
    local known = redis.call('HGET', KEYS[5], digest)
    if is_suspect(known) then
      suspects = 2
      move_own_deaths(KEYS[5], digest, known, id)
    end
  end
end

redis.call('HSET', KEYS[4], 'seq', seq)
if not last then
  redis.call('PEXPIRE', KEYS[4], 4 * tonumber(ARGV[2])) -- a beat made it, or will renew it
end
local places = nil
if message and is_marked then
  --! include tracked
  --! include cancelled
  places = marked_among(KEYS[8], { message })
end
return { 0, waiting, suspects, { message }, paused or places }
