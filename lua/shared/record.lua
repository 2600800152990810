-- record: the record of a tracked call, and the lock of a unique one.

local LIFE = 2592000000 -- milliseconds for which an unfinished call is known: 30 days
local LOCK_LIFE = 86400000 -- for how long a lock holds without news of its call: a day
local MOST_DONE = 100000 -- finished calls that are listed

local ENDED = { succeeded = true, dead = true, cancelled = true, expired = true }

-- Returns the 16 bytes from `at` on as 32 hexadecimal digits.
local function hex(bytes, at)
  local digits, one, two, three, four = bit.tohex, struct.unpack('>I4I4I4I4', bytes, at)
  return digits(one) .. digits(two) .. digits(three) .. digits(four)
end

local function record_of(queue, id)
  return queue .. ':c:' .. (#id == 16 and hex(id, 1) or '') -- another's id has no record
end

local function key_of_lock(queue, lock)
  return queue .. ':u:' .. hex(lock, 2)
end

-- Frees a lock (mode and digest) if the call holds it.
local function unlock(queue, id, lock)
  local key = key_of_lock(queue, lock)
  if redis.pcall('GET', key) == id then
    redis.pcall('UNLINK', key) -- without the right, it stays until it expires
  end
end

-- Whether a key holds a ZSET of this library, and not another program's.
local function holds_ids(key)
  local first = redis.pcall('ZRANGE', key, 0, 0)
  return not first.err and (not first[1] or #first[1] == 16)
end

-- Whether the record exists. Every script has the permission to ask this.
local function has_record(key)
  return type(redis.pcall('HGET', key, 'state')) == 'string'
end

-- Records that an unfinished call changed its state, with further fields and their values. A flow may have ended while
-- its message is still with a worker that died.
local function note_state(queue, id, state, ...)
  local key = record_of(queue, id)
  if has_record(key) and not redis.pcall('HGET', key, 'ended') then
    redis.pcall('HSET', key, 'state', state, ...)
    redis.pcall('PEXPIRE', key, LIFE)
  end
end

-- Returns the error with which the outbox would refuse the outcome of this call, if it is a step of a flow. Asked before
-- the call ends: without its outcome, its flow would wait for ever.
local function outbox_error(queue, call)
  if not (call and call.m) then
    return nil
  end
  local outbox = queue .. '_outbox'
  local reply = redis.pcall('HDEL', outbox, ' ') -- nobody's field
  reply = type(reply) == 'number' and redis.pcall('HSET', outbox, ' ', '') or reply
  reply = type(reply) == 'number' and redis.pcall('HDEL', outbox, ' ') or reply
  return type(reply) == 'table' and reply or nil
end

-- Records that a call has ended, notifies its waiters, frees its lock unless that holds for a fixed time, and leaves the
-- outcome in the outbox if it is a step of a flow. `call` has the options that `tracked` reads; its record is kept for
-- `s` milliseconds. The fields are pairs; waiters get the state and the fields.
local function note_end(queue, call, now, state, ...)
  local id, keep, lock = call.i, call.s, call.u
  if call.m then
    redis.pcall('HSET', queue .. '_outbox', id, cmsgpack.pack({ now, call.m, state, ... }))
  end
  if lock and string.sub(lock, 1, 1) ~= 'p' then
    unlock(queue, id, lock)
  end
  if not keep then
    return
  end
  local key = record_of(queue, id)
  if has_record(key) then
    if keep == 0 then
      redis.pcall('UNLINK', key)
    else
      redis.pcall('HSET', key, 'state', state, 'ended', now, ...)
      redis.pcall('PEXPIRE', key, keep)
      local done = queue .. '_done'
      if holds_ids(done) then
        redis.pcall('ZREMRANGEBYSCORE', done, '-inf', now)
        redis.pcall('ZADD', done, now + keep, id)
        redis.pcall('ZREMRANGEBYRANK', done, 0, -MOST_DONE - 1)
      end
    end
  end
  redis.pcall('PUBLISH', key, cmsgpack.pack({ state, ... })) -- without the right, waiters only see the record
end
