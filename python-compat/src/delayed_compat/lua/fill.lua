-- fill: add items to filling batches. A full one becomes a message at the tail of the queue.
--
-- A batch is full when it has as many items as it may, or 4 MiB of them. The timetable moves what is not full in time. If a
-- batch is to be moved before all else in the timetable, the processes that move calls are notified, and the lease of the
-- process that holds the timetable is revoked, because that process may sleep for longer.
--
-- KEYS[1]  queue          LIST    waiting messages, oldest first
-- KEYS[2]  notifications  LIST    one token for each waiting message
-- KEYS[3]  due            ZSET    the timetable: `g` and the name of a filling batch -> when it is moved at the latest, in
--                                 milliseconds since 1970
-- KEYS[4]  timetable      STRING  the process that moves what is due; expires
-- ARGV[1]  channel  on which the processes listen that move what is due
-- ARGV[…]  for each batch: its name, how many items it may have, after how many milliseconds it is moved at the latest, after
--          how many without a new item (0: no sooner), how many full batches follow, how many items follow, and both: a full
--          batch is as many items as it may have, one after the other, and becomes a message by itself
--
-- The keys of filling batches begin with the queue's name.
-- Returns how many messages were made.
-- Errors  WRONGTYPE  the key of a batch holds something else; nothing was done.
-- Errors  ERR        an argument is not a whole number; nothing was done.

-- now: the server's clock.

-- Returns the milliseconds since 1970.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
-- batch: a filling batch, and the message that it becomes. Its list has the items, encoded, and before them when the first
-- one came, in milliseconds since 1970, and how many bytes they have. Its name is the path of its task, followed by a space
-- and its key if it has one.

local function batch_of(queue, name)
  return queue .. ':g:' .. name
end

-- Whether a list with this first element is a filling batch of this name, and not another program's.
local function is_batch(name, header)
  return string.find(name, '^[^ ]') and string.find(header, '^%d+ %d+$')
end

-- Returns the head of a MessagePack value of `length` bytes or elements: `fixed` and the length in one byte if there are at
-- most `few`, else `byte` and one byte of length, `short` and two, or the head behind `short` and four.
local function head(length, fixed, few, byte, short)
  if length <= few then
    return string.char(fixed + length)
  elseif byte and length < 256 then
    return string.char(byte, length)
  elseif length < 65536 then
    return struct.pack('>BI2', short, length)
  end
  return struct.pack('>BI4', short + 1, length)
end

-- Returns the message: a call of the task with the list of its `count` items, as Go makes it.
local function message_of(name, count, items)
  local path = string.match(name, '^[^ ]+')
  local payload = head(count, 0x90, 15, nil, 0xdc) .. items
  return '\146' .. head(#path, 0xa0, 31, 0xd9, 0xda) .. path .. head(#payload, 0, -1, 0xc4, 0xc5) .. payload
end

local ENOUGH = 4194304 -- bytes of items
local AT_ONCE = 1000 -- items for one command
local now, made, earliest, headers = now_ms(), 0, nil, {}
local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
redis.call('LLEN', KEYS[1])
redis.call('LLEN', KEYS[2])
local at = 2
while at <= #ARGV do -- what may raise does so before the first write
  local key = batch_of(KEYS[1], ARGV[at])
  local found = redis.pcall('LRANGE', key, 0, 0)
  if found.err then
    return redis.error_reply(found.err .. ': ' .. key)
  end
  if found[1] and not is_batch(ARGV[at], found[1]) then
    return redis.error_reply('WRONGTYPE this is not a filling batch: ' .. key)
  end
  headers[key] = found[1]
  for i = at + 1, at + 5 do
    if not string.find(ARGV[i], '^%d+$') then
      return redis.error_reply('ERR not a whole number: ' .. ARGV[i])
    end
  end
  at = at + 6 + tonumber(ARGV[at + 4]) + tonumber(ARGV[at + 5])
end
redis.call('ZADD', KEYS[3], 'XX', 0, ' ') -- nobody's entry: the right to write, and the memory
for key, header in pairs(headers) do -- the rights to change what fills
  redis.call('LTRIM', key, 0, -1)
  redis.call('LSET', key, 0, header)
end

local function push(name, count, items)
  redis.call('RPUSH', KEYS[1], message_of(name, count, items))
  redis.pcall('RPUSH', KEYS[2], '1') -- else a sweeper makes it
  made = made + 1
end

local function fill(name, most, within, grace, from, to)
  local key, member, new = batch_of(KEYS[1], name), 'g' .. name, {}
  local old = math.max(redis.call('LLEN', key) - 1, 0)
  local began, bytes = now, 0
  if old > 0 then
    local since, size = string.match(redis.call('LRANGE', key, 0, 0)[1], '^(%d+) (%d+)$')
    began, bytes = math.min(tonumber(since), now), tonumber(size) -- the clock may have been set back
  end

  local function flush()
    local items = old > 0 and redis.call('LRANGE', key, 1, -1) or {}
    for _, item in ipairs(new) do
      items[#items + 1] = item
    end
    push(name, #items, table.concat(items))
    if old > 0 then
      redis.call('LTRIM', key, 1, 0)
    end
    old, new, bytes, began = 0, {}, 0, now
  end

  for i = from, to do
    if old + #new > 0 and bytes + #ARGV[i] > ENOUGH then
      flush()
    end
    new[#new + 1], bytes = ARGV[i], bytes + #ARGV[i]
    if old + #new >= most then
      flush()
    end
  end
  if from > to then
    return
  elseif #new == 0 then
    redis.pcall('ZREM', KEYS[3], member) -- without the right, the timetable finds nothing to move
    return
  end
  local due = grace > 0 and math.min(began + within, now + grace) or began + within
  redis.call('ZADD', KEYS[3], due, member) -- before the items: an entry without items does no harm
  local header = string.format('%.0f %.0f', began, bytes)
  if old == 0 then
    redis.call('RPUSH', key, header)
  else
    redis.call('LSET', key, 0, header)
  end
  for i = 1, #new, AT_ONCE do
    redis.call('RPUSH', key, unpack(new, i, math.min(i + AT_ONCE - 1, #new)))
  end
  earliest = math.min(earliest or due, due)
end

at = 2
while at <= #ARGV do
  local name, most, within, grace, full, count = unpack(ARGV, at, at + 5)
  local from = at + 6 + tonumber(full)
  for i = at + 6, from - 1 do
    push(name, tonumber(most), ARGV[i])
  end
  at = from + tonumber(count)
  fill(name, tonumber(most), tonumber(within), tonumber(grace), from, at - 1)
end
if earliest and (not first[2] or earliest < tonumber(first[2])) then
  if type(redis.pcall('GET', KEYS[4])) == 'string' then -- else it is not there, or somebody else's key
    redis.pcall('UNLINK', KEYS[4])
  end
  redis.pcall('PUBLISH', ARGV[1], earliest - now) -- without the right, the next beat finds it
end
return made
