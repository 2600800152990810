-- define: create, change, remove, pause or resume periodic tasks.
--
-- The definition and its entry in the timetable change in one step. A definition that is stored already is left as it is,
-- so that many processes can declare the same one at the same time. A tick that is due and was not made yet stays due.
-- A paused task has no entry. If an entry is due before all others, the processes that serve the timetable are notified.
--
-- KEYS[1]  due        ZSET    the timetable: `p` and the name of a periodic task -> when it is due, in milliseconds since
--                             1970
-- KEYS[2]  periodic   HASH    `d:` and a name -> its definition; `p:` and a name -> since when it is paused (milliseconds since
--                             1970), a space, and by whom
-- KEYS[3]  timetable  STRING  the process that moves what is due; expires
-- ARGV[1]  queue    its name: those of the histories begin with it
-- ARGV[2]  channel  on which the processes listen that move what is due
-- ARGV[3]  what     `put`, `new` (only if there is none of this name), `remove`, `pause` or `resume`
-- ARGV[4]  late     1 to take a time that has passed meanwhile, else 0
-- ARGV[…]  for each task, at most 500: its name, a text (put, new: the definition; pause: by whom; else empty), and when it is
--          due next, in milliseconds since 1970; 0 (and for remove and pause) leaves it to the process that serves the
--          timetable, which computes it at once
--
-- Returns an array: for each task a word: `new`, `changed`, `removed`, `paused`, `resumed`; `same` when nothing had to be
-- changed; `exists` when there is one of this name; `absent` when there is none; `late` when the time has passed, and
-- nothing was changed: the tick may have been made.

-- now: the server's clock.

-- Returns the milliseconds since 1970.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local now, what = now_ms(), ARGV[3]
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
redis.call('HLEN', KEYS[2])
local earliest, words = nil, {}

-- Puts a task into the timetable, unless a tick of it is overdue.
local function put_due(name, due)
  local score = redis.call('ZSCORE', KEYS[1], 'p' .. name)
  if score and tonumber(score) <= now then
    return
  end
  redis.call('ZADD', KEYS[1], due, 'p' .. name)
  earliest = math.min(earliest or due, due)
end

local function is_late(due)
  return due > 0 and due <= now and ARGV[4] ~= '1'
end

local function put(name, definition, due)
  local known = redis.call('HGET', KEYS[2], 'd:' .. name)
  local is_paused = redis.call('HEXISTS', KEYS[2], 'p:' .. name) == 1
  if known and what == 'new' then
    return 'exists'
  end
  local is_due = is_paused or redis.call('ZSCORE', KEYS[1], 'p' .. name)
  if known == definition and is_due then
    return 'same'
  end
  if is_late(due) then
    return 'late'
  end
  redis.call('HSET', KEYS[2], 'd:' .. name, definition)
  if not is_paused then
    put_due(name, due)
  end
  return known and 'changed' or 'new'
end

local function remove(name)
  local removed = redis.call('HDEL', KEYS[2], 'd:' .. name, 'p:' .. name)
  redis.call('ZREM', KEYS[1], 'p' .. name)
  redis.pcall('UNLINK', ARGV[1] .. ':p:' .. name)
  return removed > 0 and 'removed' or 'absent'
end

local function pause(name, by)
  if redis.call('HEXISTS', KEYS[2], 'd:' .. name) == 0 then
    return 'absent'
  end
  if redis.call('HSETNX', KEYS[2], 'p:' .. name, now .. ' ' .. by) == 0 then
    return 'same'
  end
  redis.call('ZREM', KEYS[1], 'p' .. name)
  return 'paused'
end

local function resume(name, due)
  if redis.call('HEXISTS', KEYS[2], 'd:' .. name) == 0 then
    return 'absent'
  end
  if redis.call('HEXISTS', KEYS[2], 'p:' .. name) == 0 then
    return 'same'
  end
  if is_late(due) then
    return 'late'
  end
  put_due(name, due)
  redis.call('HDEL', KEYS[2], 'p:' .. name)
  return 'resumed'
end

for i = 5, #ARGV, 3 do
  local name, text, due = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  if what == 'remove' then
    words[#words + 1] = remove(name)
  elseif what == 'pause' then
    words[#words + 1] = pause(name, text)
  elseif what == 'resume' then
    words[#words + 1] = resume(name, due)
  else
    words[#words + 1] = put(name, text, due)
  end
end
if earliest and (not first[2] or earliest < tonumber(first[2])) then
  if type(redis.pcall('GET', KEYS[3])) == 'string' then -- else it is not there, or somebody else's key
    redis.call('UNLINK', KEYS[3])
  end
  redis.pcall('PUBLISH', ARGV[2], math.max(0, earliest - now)) -- without the right, the next beat finds it
end
return words
