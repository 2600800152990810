-- submit: enqueue or schedule calls that keep a record, are unique, go to the head, or go into a bounded queue.
--
-- A call that loses against another one changes nothing, and the reply names the other one. If the call that holds a
-- lock has ended or is unknown, the lock is taken over, unless it holds for a fixed time. A call that replaces takes
-- the place of the holder's message in the timetable, with its id. An ordered call waits, parked, until those before it
-- have ended.
--
-- If the queue is full, the new call is refused, or the oldest waiting call becomes a dead letter, and up to 100 more
-- if too many wait. A waiting call that is marked as cancelled is dropped instead. If the key of the dead letters
-- holds another type, the new call is refused.
--
-- KEYS[1]  queue          LIST    waiting messages, oldest first
-- KEYS[2]  notifications  LIST    one token for each waiting message
-- KEYS[3]  due            ZSET    the timetable: `c` and an id -> when the call is due, in milliseconds since 1970
-- KEYS[4]  later          HASH    id -> the message of a call in the timetable
-- KEYS[5]  timetable      STRING  the process that moves what is due; expires
-- KEYS[6]  dead           STREAM  dead letters, oldest first
-- KEYS[7]  deaths         HASH    SHA-1 of a message -> deaths of processes that owned it
-- ARGV[1]  channel    on which the processes listen that move what is due
-- ARGV[2]  most       messages that may wait, or 0 for any number
-- ARGV[3]  max_count  how many dead letters are kept where the oldest call makes room; 0: the new one is refused
-- ARGV[4]  max_age    for how many milliseconds they are kept
-- ARGV[…]  for each call, at most 100: its id (16 bytes), when it is due (as for schedule; empty: now), 1 when it goes to
--          the head, else 0, for how many milliseconds its record is kept (empty: it has none), its lock (mode and digest;
--          empty: none), for how many milliseconds that holds where it holds for a time, where in the message the id begins (from 0), the path of
--          its task, and its message
--
-- The keys of the records, the locks and the marks begin with the queue's name.
-- Returns an array: for each call an array of a number and what belongs to it: 0 it was taken, and when it is due (0: now);
-- 1 its id exists, and the state of that call; 2 another call has its lock, the id and the state of that call; 3 it
-- replaced the call of this id, and when it is due; 4 the queue is full, and how many messages wait.

-- now: the server's clock.

-- Returns the milliseconds since 1970.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
-- letters: the stream of dead letters, which may belong to another program.

-- Returns the number of dead letters, or false if the key holds another type or begins with something else; and an
-- error for the caller.
local function count_letters(key)
  local count = redis.pcall('XLEN', key)
  if type(count) ~= 'number' then
    return false, not string.find(count.err, 'WRONGTYPE', 1, true) and count
  end
  local oldest = redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
  return (not oldest or oldest[2][1] == 'message') and count, false
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

local FIRST, FIELDS = 5, 9
local now, most = now_ms(), tonumber(ARGV[2])
local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
local first_due = tonumber(first[2])
local waiting = redis.call('LLEN', KEYS[1])
redis.call('LLEN', KEYS[2])
redis.call('HLEN', KEYS[4])
local earliest, may_bury, unknown = nil, tonumber(ARGV[3]) > 0, nil
local spare = 100 -- calls above the bound that are buried, too
if may_bury then
  may_bury, unknown = count_letters(KEYS[6])
  if unknown then
    return unknown
  end
  redis.call('HLEN', KEYS[7])
end

local function due_ms(text)
  return math.max(now, string.sub(text, 1, 1) == '+' and now + tonumber(string.sub(text, 2)) or tonumber(text))
end

-- Puts a call into the timetable. Returns the error, if there is one.
local function put_later(id, due, message)
  local put = redis.pcall('ZADD', KEYS[3], due, 'c' .. id)
  put = type(put) == 'number' and redis.pcall('HSET', KEYS[4], id, message) or put
  if type(put) ~= 'number' then
    return put
  end
  earliest = math.min(earliest or due, due)
end

-- Returns the state of the call with this id, or false if no such call is known.
local function state_of(id)
  local state = redis.call('HGET', record_of(KEYS[1], id), 'state')
  return state or (redis.call('HEXISTS', KEYS[4], id) == 1 and 'scheduled')
end

-- Removes the oldest waiting call, as a dead letter or as a cancelled call. Returns the error, if there is one.
local function bury_oldest()
  local message = redis.call('LINDEX', KEYS[1], 0)
  local options = options_of(message)
  local refused = outbox_error(KEYS[1], options)
  if refused then
    return refused
  end
  local marks, detail = KEYS[1] .. '_cancelled', waiting .. ' calls waited in its queue: a newer one took its place'
  local is_marked, letter = options and type(redis.pcall('ZSCORE', marks, options.i)) == 'string', nil
  if not is_marked then -- before the message goes, so that a letter that is refused loses nothing
    letter = redis.pcall('XADD', KEYS[6], 'MAXLEN', ARGV[3], '*', 'message', message, 'reason', 'overflow', 'detail', detail,
      'attempt', '0', 'worker', '')
    if type(letter) ~= 'string' then
      return letter
    end
  end
  local left = redis.pcall('LTRIM', KEYS[1], 1, -1)
  if left.err then
    if letter then
      redis.pcall('XDEL', KEYS[6], letter)
    end
    return left
  end
  waiting = waiting - 1
  redis.pcall('XTRIM', KEYS[6], 'MINID', math.max(0, now - tonumber(ARGV[4])))
  redis.pcall('HDEL', KEYS[7], redis.sha1hex(message))
  if is_marked then
    redis.pcall('ZREM', marks, options.i)
    local by = redis.pcall('HGET', record_of(KEYS[1], options.i), 'by')
    note_end(KEYS[1], options, now, 'cancelled', 'by', type(by) == 'string' and by or '')
  elseif options then
    note_end(KEYS[1], options, now, 'dead', 'reason', 'overflow', 'error', detail, 'letter', letter)
  end
end

-- Makes room for a call in a full queue. Returns the error, if there is one.
local function make_room()
  local more = math.min(waiting - most, spare)
  spare = spare - more
  for _ = 0, more do
    local failed = bury_oldest()
    if failed then
      return failed
    end
  end
end

-- Parks an ordered call behind others.
local function await_turn(id, keep, lock, task, message, is_held)
  local order, record, failed = order_of(lock), record_of(KEYS[1], id), false
  local function try(...)
    local reply = not failed and redis.pcall(...)
    failed = failed or (type(reply) == 'table' and reply.err and reply)
  end
  try('SADD', KEYS[1] .. '_parked', order) -- before the message, so that it is found
  if keep ~= '' then
    try('HSET', record, 'state', 'waiting', 'task', task, 'queued', now, 'limit', order)
    try('PEXPIRE', record, LIFE)
  end
  try('RPUSH', KEYS[1] .. ':l:' .. order, message)
  if failed then
    redis.pcall('UNLINK', record)
    return failed
  end
  if not is_held then -- the lock has expired, or its holder is not known any more
    next_in_order(KEYS[1], lock)
  end
  return { 0, 0 }
end

local function submit(id, due, head, keep, lock, life, at, task, message)
  local state = state_of(id)
  if state then
    return { 1, state }
  end
  local mode = string.sub(lock, 1, 1)
  local lock_key = lock ~= '' and key_of_lock(KEYS[1], lock)
  local holder = lock_key and redis.call('GET', lock_key)
  if holder and mode == 'r' and redis.call('HEXISTS', KEYS[4], holder) == 1 then
    due = due_ms(due == '' and '+0' or due)
    local failed = put_later(holder, due, string.sub(message, 1, at) .. holder .. string.sub(message, at + 17))
    if failed then
      return failed
    end
    redis.pcall('HSET', record_of(KEYS[1], holder), 'due', due)
    redis.pcall('PEXPIRE', record_of(KEYS[1], holder), due - now + LIFE)
    redis.pcall('PEXPIRE', lock_key, due - now + LOCK_LIFE)
    return { 3, holder, due }
  end
  local of_holder = holder and mode ~= 'r' and state_of(holder)
  local is_held = of_holder and not ENDED[of_holder]
  if mode == 'o' and (is_held or redis.call('LLEN', KEYS[1] .. ':l:' .. order_of(lock)) > 0) then
    return await_turn(id, keep, lock, task, message, is_held)
  elseif holder and mode ~= 'r' and (mode == 'p' or is_held) then
    return { 2, holder, of_holder or 'unknown' }
  end
  local before = waiting
  if due == '' and most > 0 and waiting >= most then
    local refused = not may_bury and { 4, waiting } or make_room()
    if refused then
      return refused
    end
  end
  due = due ~= '' and due_ms(due)
  local wait = due and due - now or 0
  local record, failed = record_of(KEYS[1], id), false
  local function try(...)
    local reply = not failed and redis.pcall(...)
    failed = failed or (type(reply) == 'table' and reply.err and reply)
  end
  if lock_key then
    try('SET', lock_key, id, 'PX', mode == 'p' and life or wait + LOCK_LIFE)
  end
  if keep ~= '' then
    try('HSET', record, 'state', due and 'scheduled' or 'waiting', 'task', task, 'queued', now)
    if due then
      try('HSET', record, 'due', due)
    end
    try('PEXPIRE', record, wait + LIFE)
  end
  if due then
    failed = failed or put_later(id, due, message)
  else
    try(head == '1' and 'LPUSH' or 'RPUSH', KEYS[1], message)
  end
  if failed then -- not allowed, or full: nothing is left of the call
    if lock_key then
      redis.pcall('UNLINK', lock_key)
    end
    redis.pcall('UNLINK', record)
    redis.pcall('ZREM', KEYS[3], 'c' .. id)
    return failed
  end
  if due then
    return { 0, due }
  end
  waiting = waiting + 1
  if waiting > before then
    redis.pcall('RPUSH', KEYS[2], '1') -- else a sweeper makes it
  elseif waiting < before then
    local tokens = redis.pcall('LLEN', KEYS[2])
    local surplus = math.min(tokens - waiting, before - waiting)
    if surplus > 0 then -- LREM takes a 0 for all
      redis.pcall('LREM', KEYS[2], surplus, '1')
    end
  end
  return { 0, 0 }
end

if #ARGV > FIRST + FIELDS then -- what may raise does so before the first write
  for i = FIRST, #ARGV, FIELDS do
    state_of(ARGV[i])
    if ARGV[i + 4] ~= '' then
      redis.call('GET', key_of_lock(KEYS[1], ARGV[i + 4]))
      redis.call('LLEN', KEYS[1] .. ':l:' .. order_of(ARGV[i + 4]))
    end
  end
end
local replies = {}
for i = FIRST, #ARGV, FIELDS do
  local reply = submit(unpack(ARGV, i, i + FIELDS - 1))
  if reply.err then
    return reply
  end
  replies[#replies + 1] = reply
end
if earliest and (not first_due or earliest < first_due) then
  if type(redis.pcall('GET', KEYS[5])) == 'string' then -- else it is not there, or somebody else's key
    redis.call('UNLINK', KEYS[5])
  end
  redis.pcall('PUBLISH', ARGV[1], earliest - now) -- without the right, the next beat finds it
end
return replies
