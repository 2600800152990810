-- record: the record of a tracked call, and the lock of a unique or an ordered one. Include it after `tracked` where calls
-- end.

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

-- Frees a lock (mode and digest) if the call holds it. Returns whether it is free.
local function unlock(queue, id, lock)
  local key = key_of_lock(queue, lock)
  local holder = redis.pcall('GET', key)
  if holder == id then
    redis.pcall('UNLINK', key) -- without the right, it stays until it expires
  end
  return holder == id or not holder
end

-- The calls that wait behind an ordered one: the limit under whose name they are parked.
local function order_of(lock)
  return 'order:' .. hex(lock, 2)
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

-- Moves the next of some ordered calls, which share a lock that is free, to the tail of the queue.
local function next_in_order(queue, lock)
  local order = order_of(lock)
  local waiters = queue .. ':l:' .. order
  local message = redis.pcall('LINDEX', waiters, 0)
  local options = type(message) == 'string' and options_of(message)
  if options and not redis.pcall('LTRIM', waiters, 0, -1).err -- the right to take it out
    and type(redis.pcall('RPUSH', queue, message)) == 'number' then
    redis.pcall('RPUSH', queue .. '_noti', '1') -- else a sweeper makes it
    redis.pcall('LTRIM', waiters, 1, -1)
    redis.pcall('SET', key_of_lock(queue, lock), options.i, 'PX', LOCK_LIFE)
    if redis.pcall('EXISTS', waiters) == 0 then
      redis.pcall('SREM', queue .. '_parked', order)
    end
    note_state(queue, options.i, 'waiting', 'limit', '')
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

-- Records that a call has ended, notifies its waiters, frees its lock unless that holds for a fixed time, so that the
-- next of some ordered calls may run, and leaves the outcome in the outbox if it is a step of a flow. `call` has the
-- options that `tracked` reads; its record is kept for `s` milliseconds. The fields are pairs; waiters get the state and
-- the fields.
local function note_end(queue, call, now, state, ...)
  local id, keep, lock = call.i, call.s, call.u
  if call.m then
    redis.pcall('HSET', queue .. '_outbox', id, cmsgpack.pack({ now, call.m, state, ... }))
  end
  if lock and string.sub(lock, 1, 1) ~= 'p' then
    if unlock(queue, id, lock) and string.sub(lock, 1, 1) == 'o' then
      next_in_order(queue, lock)
    end
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
