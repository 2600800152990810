-- wake: give a limit back, and return which calls may run now.
--
-- KEYS[1]  policy   HASH  concurrency and rate: of what is not there, there may be any
-- KEYS[2]  holders  ZSET  a wire id, `#` and a number -> when this lease ends, in milliseconds since 1970
-- KEYS[3]  line     LIST  the SHA-1 of each message that waits, a space, and its queue
-- KEYS[4]  state    HASH  woken, since: see `line`
-- KEYS[5]  permits  ZSET  the SHA-1 of a message, a space, and when its token is free -> 0; expires
-- ARGV[1]  again   1 to be told again of calls that were told to come and have not, else 0
-- ARGV[2]  count   how many holders give the limit back
-- ARGV[…]  for each of these, at most 100: who holds it, and the SHA-1 of its message when its token was not used, else an
--          empty text; then the entries of calls that were told to come and are nowhere to be found, at most 100
--
-- Returns an array: how many calls wait, and the entries of those that may run now.

-- now: the server's clock.

-- Returns the milliseconds since 1970.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
-- line: the calls that wait for a limit, first come, first served. The first `woken` of them may run now and are on their
-- way. `since` is when the first call of all became expected, in milliseconds since 1970.

local EXPECTED = 60000 -- milliseconds for which a woken call is expected to come
local AGAIN = 10000 -- milliseconds after which a call may be woken again
local MOST_WOKEN = 100 -- calls that are woken at once

-- Returns how many calls may hold the limit, from its policy.
local function capacity(concurrency)
  return tonumber(concurrency or math.huge)
end

local function woken_of(state, now)
  local woken = redis.call('HMGET', state, 'woken', 'since')
  return tonumber(woken[1] or 0), tonumber(woken[2] or now)
end

-- Returns the entries of the calls that may use the free places, and records that they are woken.
local function wake_next(line, state, free, now, again)
  local waiting = redis.call('LLEN', line)
  local woken, since = woken_of(state, now)
  if woken > 0 and now - since > EXPECTED then -- dropped, or taken by a worker that knows no limits
    redis.call('LPOP', line)
    woken, waiting, since = woken - 1, waiting - 1, now
    redis.call('HSET', state, 'woken', woken, 'since', since)
  end
  local upto = math.min(free, waiting)
  local first = (again and now - since > AGAIN) and 0 or woken
  local entries, seen = {}, {}
  upto = math.min(upto, first + MOST_WOKEN)
  for place, entry in ipairs(upto > first and redis.call('LRANGE', line, first, upto - 1) or {}) do
    local is_again = first + place <= woken
    if not is_again or not seen[entry] then -- of messages that are alike, one at a time is told again
      entries[#entries + 1] = entry
    end
    seen[entry] = is_again
  end
  if upto > woken then
    redis.call('HSET', state, 'woken', upto, 'since', woken > 0 and since or now)
  end
  return entries
end

local FIRST, PERMIT_LIFE = 3, 3600000 -- milliseconds for which a token is kept
local now, count = now_ms(), tonumber(ARGV[2])
local policy = redis.call('HMGET', KEYS[1], 'concurrency', 'rate')
local most = capacity(policy[1])
redis.call('LLEN', KEYS[3])
redis.call('HLEN', KEYS[4])
redis.call('ZCARD', KEYS[5])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now) -- the first write needs no memory
local lost = FIRST + 2 * count
for i = FIRST, lost - 1, 2 do
  if redis.call('ZREM', KEYS[2], ARGV[i]) == 1 and policy[2] and ARGV[i + 1] ~= '' then
    redis.call('ZADD', KEYS[5], 0, ARGV[i + 1] .. string.format(' %017.3f', now))
    redis.call('PEXPIRE', KEYS[5], PERMIT_LIFE)
  end
end
local woken = woken_of(KEYS[4], now)
for i = lost, #ARGV do
  local place = woken > 0 and redis.call('LPOS', KEYS[3], ARGV[i], 'MAXLEN', woken)
  if place then
    redis.call('LREM', KEYS[3], 1, ARGV[i])
    woken = woken - 1
    redis.call('HSET', KEYS[4], 'woken', woken, 'since', now)
  end
end
local entries = wake_next(KEYS[3], KEYS[4], most - redis.call('ZCARD', KEYS[2]), now, ARGV[1] == '1')
return { redis.call('LLEN', KEYS[3]), unpack(entries) }
