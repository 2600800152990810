-- promote: move calls that are due from the timetable to the tail of the queue.
--
-- One process at a time does this, as long as it knows of a call that is due within its lease. Other processes
-- learn how long that lasts, and need not ask sooner. This only saves work: any process may move a call, and
-- moves it once. A due time without a message is dropped.
--
-- A filling batch that is due becomes a message, which is moved as a call is.
--
-- Periodic tasks that are due stay: the process computes when they are due again, and calls `tick`. A process that
-- cannot do that leaves the lease to others. Entries of another kind, written by a newer version, stay as well.
--
-- KEYS[1]  queue          LIST    waiting messages, oldest first
-- KEYS[2]  notifications  LIST    one token for each waiting message
-- KEYS[3]  due            ZSET    the timetable: `c` and the id of a call, `p` and the name of a periodic task, or `g` and
--                                 the name of a filling batch -> when it is due, in milliseconds since 1970
-- KEYS[4]  later          HASH    id -> the message of a call in the timetable
-- KEYS[5]  timetable      STRING  the process that moves what is due; expires
-- KEYS[6]  periodic       HASH    `d:` and a name -> the definition of a periodic task
-- ARGV[1]  process  who asks
-- ARGV[2]  lease    in milliseconds
-- ARGV[3]  count    how many entries to look at, at the most, up to 1000
-- ARGV[4]  ticks    1 when the process can make the calls of periodic tasks, else 0
--
-- The keys of filling batches begin with the queue's name.
-- Returns an array: how many calls were moved, and after how many milliseconds to ask again; -1 when the timetable is
-- empty. When periodic tasks are due, also the time, in milliseconds since 1970, and an array: for each of them its member
-- in the timetable, when it is due, and its definition.

--! include now
--! include record
--! include batch

local lease, count = tonumber(ARGV[2]), tonumber(ARGV[3])
local ENOUGH = 8388608 -- bytes that one call moves, and one message more
local MOST = 50000 -- items that one call moves, and one batch more
local LATER = 60000 -- after how many milliseconds a batch is looked at again that cannot be moved
local now = now_ms()
-- Returns after how many milliseconds the first entry is due, and whether it is one for this process.
local function first_due()
  local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
  if first[2] then
    local is_ours = ARGV[4] == '1' or string.sub(first[1], 1, 1) ~= 'p'
    return math.max(0, math.ceil(tonumber(first[2])) - now), is_ours
  end
end

-- Moves a filling batch to the tail of the queue. Returns the bytes of its message and how many items it has, 0 and 0 if there
-- is none, or nil if it cannot be moved.
local function flush(name)
  local key = batch_of(KEYS[1], name)
  local first = redis.pcall('LRANGE', key, 0, 0)
  local is_ours = not first.err and (not first[1] or is_batch(name, first[1]))
  if not is_ours or redis.pcall('LTRIM', key, 0, -1).err then -- the right to empty it
    return nil
  end
  local items = redis.call('LRANGE', key, 1, -1)
  if #items == 0 then
    return 0, 0
  end
  local message = message_of(name, #items, table.concat(items))
  redis.call('RPUSH', KEYS[1], message)
  redis.call('RPUSH', KEYS[2], '1')
  redis.call('LTRIM', key, 1, 0)
  return #message, #items
end

local wait, is_ours = first_due()
if not wait then
  return { 0, -1 }
end
redis.call('LLEN', KEYS[1])
redis.call('LLEN', KEYS[2])
redis.call('HLEN', KEYS[4])
local holder, left = redis.pcall('GET', KEYS[5]), redis.call('PTTL', KEYS[5])
local is_text = type(holder) == 'string' -- else it is not there, or somebody else's key
if is_text and holder ~= ARGV[1] and left >= 0 and left <= lease then -- a clock that was set back makes it longer
  return { 0, math.max(wait, left, 1) }
end

local moved, ticks = 0, {}
if wait == 0 then
  redis.call('ZREM', KEYS[3], ' ') -- nobody's entry: the first write needs no memory, and the last ones are allowed
  redis.call('HDEL', KEYS[4], ' ')
  local members, ids, bytes, items, done, flushed = {}, {}, 0, 0, 0, 0
  local due = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'WITHSCORES', 'LIMIT', 0, count)
  for i = 1, #due, 2 do
    local kind, name = string.sub(due[i], 1, 1), string.sub(due[i], 2)
    if kind == 'c' then
      members[#members + 1], ids[#ids + 1] = due[i], name
    elseif kind == 'g' and bytes < ENOUGH and items < MOST then
      local size, flushed_items = flush(name)
      if size then
        redis.call('ZREM', KEYS[3], due[i])
        bytes, items = bytes + size, items + flushed_items
        moved = moved + (size > 0 and 1 or 0)
      else
        redis.pcall('ZADD', KEYS[3], 'XX', now + LATER, due[i]) -- else it is always the first, and holds up the others
      end
      flushed = flushed + 1
    elseif kind == 'p' then
      local definition = redis.pcall('HGET', KEYS[6], 'd:' .. name)
      if not definition then
        redis.call('ZREM', KEYS[3], due[i])
      elseif type(definition) == 'string' and ARGV[4] == '1' then
        ticks[#ticks + 1] = due[i]
        ticks[#ticks + 1] = tonumber(due[i + 1])
        ticks[#ticks + 1] = definition
      end
    end
  end
  while done < #ids and bytes < ENOUGH do
    local last = math.min(done + 100, #ids)
    local messages, tokens = {}, {}
    for _, message in ipairs(redis.call('HMGET', KEYS[4], unpack(ids, done + 1, last))) do
      if message then
        messages[#messages + 1], tokens[#tokens + 1] = message, '1'
        bytes = bytes + #message
      end
    end
    if #messages > 0 then
      redis.call('RPUSH', KEYS[1], unpack(messages))
      redis.call('RPUSH', KEYS[2], unpack(tokens))
    end
    -- Last, so that a failure loses nothing.
    redis.call('ZREM', KEYS[3], unpack(members, done + 1, last))
    redis.call('HDEL', KEYS[4], unpack(ids, done + 1, last))
    for i = done + 1, last do
      note_state(KEYS[1], ids[i], 'waiting')
    end
    done, moved = last, moved + #messages
  end
  wait, is_ours = first_due()
  if wait == 0 and done + flushed == 0 and #ticks == 0 then
    wait = lease -- none of what is due is ours to move
  end
end
if wait and is_ours and wait <= lease and (is_text or not holder) then
  redis.call('SET', KEYS[5], ARGV[1], 'PX', lease)
elseif is_text then
  redis.call('UNLINK', KEYS[5])
end
if #ticks > 0 then
  return { moved, wait or -1, now, ticks }
end
return { moved, wait or -1 }
