-- unpark: move messages that waited for a limit to the head of their queue.
--
-- A message that is missing is skipped: it is not parked yet, or another process has moved it. Of ordered calls, the oldest
-- is moved only if the one before it has ended and did not move it, such as in a worker of another language.
--
-- KEYS[1]  queue          LIST  waiting messages, oldest first
-- KEYS[2]  notifications  LIST  one token for each waiting message
-- KEYS[3]  waiters        LIST  messages that wait for this limit, oldest first
-- KEYS[4]  parked         SET   the names of limits for which messages of this queue wait
-- ARGV[1]  limit  its name
-- ARGV[2]  count  how many to move, whichever: the oldest; the caller sends at most 1000
-- ARGV[…]  the SHA-1 of each message to move, in their order; at most 200
--
-- Returns an array: how many were moved, and the SHA-1 of those that were not there.

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

local STEP, FURTHEST = 20, 1000 -- messages that are looked at together, and at all: they are nearly in their order
redis.call('LLEN', KEYS[1])
redis.call('LLEN', KEYS[2])
local parked = redis.call('LLEN', KEYS[3])
local digits = string.match(ARGV[1], '^order:(%x+)$')
if digits and #digits == 32 and ARGV[2] ~= '0' then
  local holder = redis.call('GET', KEYS[1] .. ':u:' .. digits)
  local state = holder and redis.pcall('HGET', record_of(KEYS[1], holder), 'state')
  local is_held = type(state) == 'string' and not ENDED[state]
  if not is_held then
    next_in_order(KEYS[1], 'o' .. string.gsub(digits, '..', function(byte)
      return string.char(tonumber(byte, 16))
    end))
  end
  local left = redis.call('LLEN', KEYS[3])
  if left == 0 then
    redis.call('SREM', KEYS[4], ARGV[1])
  end
  return { parked - left }
end
local found = redis.call('LRANGE', KEYS[3], 0, tonumber(ARGV[2]) - 1)
if ARGV[2] == '0' then
  found = {}
end
local seen = {} -- by SHA-1: how many of these messages were asked for, and are not found yet
local missing, absent = 0, {}
for i = 3, #ARGV do
  seen[ARGV[i]] = (seen[ARGV[i]] or 0) + 1
  missing = missing + 1
end
for first = 0, math.min(parked, FURTHEST) - 1, STEP do
  if missing == 0 then
    break
  end
  for _, message in ipairs(redis.call('LRANGE', KEYS[3], first, first + STEP - 1)) do
    local digest = redis.sha1hex(message)
    if (seen[digest] or 0) > 0 then
      seen[digest], missing = seen[digest] - 1, missing - 1
      found[#found + 1] = message
    end
  end
end
redis.call('SREM', KEYS[4], ' ') -- nobody's name: the first write needs no memory
redis.call('LREM', KEYS[3], 1, ' ') -- nobody's message: the right to take out what is pushed
for i = #found, 1, -1 do
  redis.call('LPUSH', KEYS[1], found[i])
  redis.call('LPUSH', KEYS[2], '1')
  redis.call('LREM', KEYS[3], 1, found[i]) -- last, so that nothing is lost
  local options = options_of(found[i])
  if options then
    note_state(KEYS[1], options.i, 'waiting', 'limit', '')
  end
end
if #found >= parked then
  redis.call('SREM', KEYS[4], ARGV[1])
end
for digest, count in pairs(seen) do
  for _ = 1, count do
    absent[#absent + 1] = digest
  end
end
return { #found, unpack(absent) }
