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

--! include now
--! include letters
--! include tracked
--! include record

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
