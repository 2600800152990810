-- cancel: remove calls from the timetable for good, or mark them, so that workers drop them when claimed.
--
-- A worker that is running such a call gets a kill request instead. A mark is removed when the call is dropped,
-- or after 30 days.
--
-- KEYS[1]  due        ZSET  the timetable: `c` and an id -> when the call is due, in milliseconds since 1970
-- KEYS[2]  later      HASH  id -> the message of a call in the timetable
-- KEYS[3]  cancelled  ZSET  id -> when a waiting call was cancelled, in milliseconds since 1970
-- ARGV[1]  queue      its name, with which the keys of records and locks begin
-- ARGV[2]  by         who cancels
-- ARGV[…]  ids (16 bytes each), at most 500
--
-- Returns an array: for each call `scheduled` or `retrying` when it was in the timetable, else the state that its record
-- has, or an empty text without one. Unless that is how it ended, the call is marked.

-- now: the server's clock.

-- Returns the milliseconds since 1970.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
-- tracked: the options of a message that its record and its lock need. Only this library's form has them, in the map
-- at its end: `i` is the id (16 bytes), `m` of which flow it is a step, `s` for how many milliseconds the record is kept,
-- `u` the lock: its mode and its digest (17 bytes).

local SIZES = { -- bytes of MessagePack behind a head, or of the length behind it (negative)
  [0xc4] = -1, [0xc5] = -2, [0xc6] = -4, [0xc7] = -1, [0xc8] = -2, [0xc9] = -4, [0xca] = 4, [0xcb] = 8, [0xcc] = 1,
  [0xcd] = 2, [0xce] = 4, [0xcf] = 8, [0xd0] = 1, [0xd1] = 2, [0xd2] = 4, [0xd3] = 8, [0xd4] = 2, [0xd5] = 3, [0xd6] = 5,
  [0xd7] = 9, [0xd8] = 17, [0xd9] = -1, [0xda] = -2, [0xdb] = -4, [0xdc] = -2, [0xdd] = -4, [0xde] = -2, [0xdf] = -4,
}

-- Returns where the value that begins at `at` ends, and where its own bytes begin.
local function behind(bytes, at)
  local left, content = 1, nil
  while left > 0 do
    local head = string.byte(bytes, at)
    if not head then
      return #bytes + 1, #bytes + 1
    end
    left, at = left - 1, at + 1
    local size = SIZES[head]
    if size and size < 0 then
      local length = 0
      for i = at, at - size - 1 do
        length = length * 256 + (string.byte(bytes, i) or 0)
      end
      at, size = at - size, length
      if head == 0xc7 or head == 0xc8 or head == 0xc9 then -- an extension has a type
        size = size + 1
      elseif head == 0xdc or head == 0xdd then
        left, size = left + length, 0
      elseif head == 0xde or head == 0xdf then
        left, size = left + 2 * length, 0
      end
    elseif not size and head >= 0x80 and head <= 0xbf then
      size = 0
      if head <= 0x8f then
        left = left + 2 * (head - 0x80)
      elseif head <= 0x9f then
        left = left + head - 0x90
      else
        size = head - 0xa0
      end
    end
    content = content or at
    at = at + (size or 0)
  end
  return at, content
end

-- Returns the options, or nil if the message has no id.
local function options_of(message)
  if string.byte(message, 1) ~= 0x93 then
    return nil
  end
  local at = behind(message, behind(message, 2))
  local head = string.byte(message, at) or 0
  local count = head >= 0x80 and head <= 0x8f and head - 0x80 or 0
  local options, from, key, value = {}, nil, nil, nil
  at = at + 1
  for _ = 1, count do
    value, from = behind(message, at)
    key, at = string.sub(message, from, value - 1), value
    at, from = behind(message, value)
    if (key == 'i' and at - from == 16) or (key == 'u' and at - from == 17) or (key == 'm' and at - from > 24) then
      options[key] = string.sub(message, from, at - 1)
    elseif key == 's' then
      options.s = string.byte(message, value) % 128 * (value + 1 == at and 1 or 0)
      for i = value + 1, at - 1 do
        options.s = options.s * 256 + string.byte(message, i)
      end
    end
  end
  return options.i and options
end
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

local queue, by, now = ARGV[1], ARGV[2], now_ms()
redis.call('ZCARD', KEYS[1])
redis.call('HLEN', KEYS[2])
local is_ours = holds_ids(KEYS[3]) -- else nothing is removed from it
if is_ours then
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now - LIFE)
end
redis.call('ZREM', KEYS[1], ' ') -- no such entry: fails before any write if this user lacks the right
redis.call('HDEL', KEYS[2], ' ')
redis.call('ZADD', KEYS[3], 'XX', 0, ' ')
local found = {}
for i = 3, #ARGV do
  local id = ARGV[i]
  local message = redis.call('HGET', KEYS[2], id)
  local record = redis.pcall('HGET', record_of(queue, id), 'state')
  local state = type(record) == 'string' and record or ''
  local options = message and options_of(message) or {}
  local refused = outbox_error(queue, options)
  if refused then
    return refused
  end
  redis.call('ZREM', KEYS[1], 'c' .. id)
  if redis.call('HDEL', KEYS[2], id) == 1 then
    options.i = id
    state = state == 'retrying' and state or 'scheduled'
    redis.pcall('ZREM', KEYS[3], id) -- of a cancellation before this one
    note_end(queue, options, now, 'cancelled', 'by', by)
  elseif not ENDED[state] then
    redis.call('ZADD', KEYS[3], now, id)
    if is_ours then
      redis.pcall('PEXPIRE', KEYS[3], LIFE)
    end
    if state == 'scheduled' or state == 'retrying' then -- the record is late
      state = 'waiting'
    end
    if state ~= '' then
      redis.pcall('HSET', record_of(queue, id), 'by', by)
    end
  end
  found[#found + 1] = state
end
return found
