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

--! include tracked
--! include record

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
