-- tick: make the calls of periodic tasks that are due, and say when these are due next.
--
-- A task whose entry in the timetable has changed since it was read is left alone: another process has made this tick, or
-- the task was changed, paused or removed. So each tick makes one call, however many processes try. The call is not
-- enqueued again when its id is known, nor while another call has its lock. Entries of the history are kept if the user
-- may write them.
--
-- KEYS[1]  queue          LIST    waiting messages, oldest first
-- KEYS[2]  notifications  LIST    one token for each waiting message
-- KEYS[3]  due            ZSET    the timetable: `p` and the name of a periodic task -> when it is due, in milliseconds since
--                                 1970
-- KEYS[4]  periodic       HASH    `d:` and a name -> the definition of a periodic task
-- ARGV[…]  for each task: its name, when it is due (empty: a call by hand, which changes no entry), the SHA-1 of its
--          definition, when it is due next (empty: never again), the first tick that is not made up for and how many these
--          are (0: none), and the number of its calls. Then for each of these: its tick (0: by hand), its id (16 bytes, or
--          empty), for how many milliseconds its record is kept (empty: it has none), its lock (mode and digest, or empty),
--          for how many milliseconds that holds where it holds for a time, the path of its task, and its message
--
-- The keys of the records, the locks and the histories begin with the queue's name.
-- Returns an array: for each task the number of calls that were enqueued; -1 when it was left alone; or, when a call could
-- not be enqueued, the error: it stays due then.

--! include now
--! include record

local MOST_ENTRIES = 50 -- entries of a history
local now = now_ms()
redis.call('LLEN', KEYS[1])
redis.call('LLEN', KEYS[2])
redis.call('HLEN', KEYS[4])

-- Adds an entry to the history of a task.
local function note(name, tick, word, more)
  local key = KEYS[1] .. ':p:' .. name
  local added = redis.pcall('LPUSH', key, cmsgpack.pack({ tick, now, word, more }))
  if type(added) == 'number' and added > MOST_ENTRIES then
    redis.pcall('LTRIM', key, 0, MOST_ENTRIES - 1)
  end
end

-- Returns the call that has this lock and has not ended, or nil.
local function holder_of(lock)
  local mode = string.sub(lock, 1, 1)
  local holder = mode ~= 'r' and redis.pcall('GET', key_of_lock(KEYS[1], lock))
  if type(holder) ~= 'string' then
    return nil
  end
  local state = redis.pcall('HGET', record_of(KEYS[1], holder), 'state')
  return (mode == 'p' or (type(state) == 'string' and not ENDED[state])) and holder or nil
end

-- Enqueues a call. Returns whether it did, and the error if there is one.
local function enqueue(name, tick, id, keep, lock, life, task, message)
  local record = id ~= '' and record_of(KEYS[1], id)
  if record and has_record(record) then
    return false
  end
  local holder = lock ~= '' and holder_of(lock)
  if holder then
    note(name, tick, 'skipped', holder)
    return false
  end
  local failed = false
  local function try(...)
    local reply = not failed and redis.pcall(...)
    failed = failed or (type(reply) == 'table' and reply.err and reply)
  end
  if lock ~= '' then
    try('SET', key_of_lock(KEYS[1], lock), id, 'PX', string.sub(lock, 1, 1) == 'p' and life or LOCK_LIFE)
  end
  if keep ~= '' then
    try('HSET', record, 'state', 'waiting', 'task', task, 'queued', now)
    try('PEXPIRE', record, LIFE)
  end
  try('RPUSH', KEYS[1], message)
  if failed then -- not allowed, or full: nothing is left of the call
    if lock ~= '' then
      unlock(KEYS[1], id, lock)
    end
    if keep ~= '' then
      redis.pcall('UNLINK', record)
    end
    return false, failed
  end
  redis.pcall('RPUSH', KEYS[2], '1') -- else a sweeper makes it
  note(name, tick, 'enqueued', id)
  return true
end

local TASK, CALL = 7, 7
local counts, i = {}, 1
while i <= #ARGV do
  local name, due, digest, next_due, missed, missed_count, count = unpack(ARGV, i, i + TASK - 1)
  i = i + TASK
  local member, calls, enqueued = 'p' .. name, tonumber(count), -1
  local definition = redis.call('HGET', KEYS[4], 'd:' .. name)
  local score = redis.call('ZSCORE', KEYS[3], member)
  if definition and redis.sha1hex(definition) == digest and (due == '' or (score and math.floor(tonumber(score)) == tonumber(due))) then
    enqueued = 0
    if due ~= '' then -- first, so that no tick is made twice; it is put back if the call cannot be enqueued
      if next_due == '' then
        redis.call('ZREM', KEYS[3], member)
      else
        redis.call('ZADD', KEYS[3], next_due, member)
      end
    end
    if missed_count ~= '0' then
      note(name, tonumber(missed), 'missed', missed_count)
    end
    for at = i, i + (calls - 1) * CALL, CALL do
      local is_new, failed = enqueue(name, tonumber(ARGV[at]), unpack(ARGV, at + 1, at + CALL - 1))
      if failed then
        if due ~= '' then
          redis.pcall('ZADD', KEYS[3], at == i and due or ARGV[at], member)
        end
        enqueued = failed.err
        break
      end
      enqueued = enqueued + (is_new and 1 or 0)
    end
  end
  i = i + calls * CALL
  counts[#counts + 1] = enqueued
end
return counts
