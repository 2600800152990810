-- acquire: ask a limit whether calls may run now.
--
-- A permitted call holds the limit until it is given back or its lease ends. A call that finds no free place, or
-- others before it, joins the line, and the caller parks its message. A call that comes too early for the rate gets
-- the next free token: the caller defers it until then, and it is not counted again when it comes back.
--
-- KEYS[1]  policy   HASH  concurrency, rate, period (in milliseconds) and burst: of what is not there, there may be any
-- KEYS[2]  holders  ZSET  a wire id, `#` and a number -> when this lease ends, in milliseconds since 1970
-- KEYS[3]  line     LIST  the SHA-1 of each message that waits, a space, and its queue
-- KEYS[4]  state    HASH  woken, since: see `line`; next: when the next token is free, and begins: when the next call
--                       may begin, in milliseconds since 1970
-- KEYS[5]  permits  ZSET  the SHA-1 of a message, a space, when its token is free, and `b` if no other begins then -> 0;
--                       expires
-- ARGV[1]  lease    in milliseconds
-- ARGV[…]  for each call, at most 100: who holds the limit then, and its entry in the line
--
-- Returns an array: an array with a number for each call, and then the entries of other calls that may run now. The number
-- is 0 when the call may run, after how many milliseconds it may, -1 when it is in the line, and -2 when there is no such
-- limit: then the call may run, and holds nothing.

--! include line

local FIRST, SOON, LATE = 2, 1, 10 -- milliseconds by which a call may come too early, or too late for its token
local LATEST = 1000 -- milliseconds for which a call may begin that has a time for itself
local TIME, BEGINS = 42, 'b' -- where the time begins in a permit, and what is behind it when no other begins at that time
local CATCH_UP = 0.995 -- of an interval: those that are late come to be on time again, within 2 % of the rate
local PERMIT_LIFE = 3600000 -- for how long a token is kept for a call

local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local policy = redis.call('HMGET', KEYS[1], 'concurrency', 'rate', 'period', 'burst')
local answers = {}
if not policy[1] and not policy[2] then
  for i = FIRST, #ARGV, 2 do
    answers[#answers + 1] = -2
  end
  return { answers }
end
local most, rate = capacity(policy[1]), tonumber(policy[2] or 0)
local interval, burst = rate > 0 and tonumber(policy[3]) / rate or 0, tonumber(policy[4] or 1)
local tokens = redis.call('HMGET', KEYS[4], 'next', 'begins')
local next_token, next_begin = tonumber(tokens[1] or now), tonumber(tokens[2] or now)
local had_begun = next_begin + next_token
redis.call('ZCARD', KEYS[5])
local waiting = redis.call('LLEN', KEYS[3])
local woken, since = woken_of(KEYS[4], now)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now) -- the first write needs no memory
local held = redis.call('ZCARD', KEYS[2])

-- Removes a call from the line. Returns whether it was among the first `count`.
local function leave_line(entry, count)
  local place = count > 0 and waiting > 0 and redis.call('LPOS', KEYS[3], entry, 'MAXLEN', math.min(count, waiting))
  if place then
    redis.call('LREM', KEYS[3], 1, entry)
    waiting = waiting - 1
    woken = place < woken and woken - 1 or woken
    since = place == 0 and now or since
  end
  return place
end

-- Adds a call to the line: a call that was told to run before the limit was lowered goes before those that were not.
local function join_line(entry)
  local pivot = most - held < woken and leave_line(entry, woken) and redis.call('LINDEX', KEYS[3], woken)
  if pivot then
    redis.call('LSET', KEYS[3], woken, ' ') -- by its place: messages that are alike have equal entries
    redis.call('LINSERT', KEYS[3], 'BEFORE', ' ', entry)
    redis.call('LSET', KEYS[3], woken + 1, pivot)
  else
    redis.call('RPUSH', KEYS[3], entry)
  end
  waiting = waiting + 1
end

-- Keeps a token for a call until it is free. Returns after how many milliseconds that is.
local function keep_token(digest, free_at, kind)
  redis.call('ZADD', KEYS[5], 0, digest .. string.format(' %017.3f', free_at) .. kind)
  redis.call('PEXPIRE', KEYS[5], math.ceil(free_at - now) + PERMIT_LIFE)
  return math.ceil(free_at - now)
end

-- Lets a call with a token begin: later, if the tokens of many calls were free for long and are used all at once.
local function begin(digest)
  local free_at = math.max(next_begin, now)
  next_begin = free_at + CATCH_UP * interval
  return free_at > now + LATE + (burst - 1) * interval and keep_token(digest, free_at, BEGINS) or 0
end

-- Takes a token. Returns after how many milliseconds it is free.
local function take_token(digest)
  local permit = redis.call('ZRANGEBYLEX', KEYS[5], '[' .. digest .. ' ', '(' .. digest .. '!', 'LIMIT', 0, 1)[1]
  local free_at = permit and tonumber(string.sub(permit, TIME, TIME + 16))
  if permit and free_at <= now + SOON then
    redis.call('ZREM', KEYS[5], permit)
    local is_next = string.sub(permit, -1) == BEGINS and now - free_at < LATEST
    return is_next and 0 or begin(digest)
  end
  next_token = math.max(next_token, now) + interval
  free_at = next_token - burst * interval
  return free_at > now + SOON and keep_token(digest, free_at, '') or begin(digest)
end

for i = FIRST, #ARGV, 2 do
  local holder, entry, answer = ARGV[i], ARGV[i + 1], 0
  if not redis.call('ZSCORE', KEYS[2], holder) then -- else this was asked before, and the answer was lost
    local free = most - held
    if leave_line(entry, free) or waiting < free then
      answer = interval > 0 and take_token(string.sub(entry, 1, 40)) or 0
    else
      join_line(entry)
      answer = -1
    end
    if answer == 0 then
      redis.call('ZADD', KEYS[2], now + tonumber(ARGV[1]), holder)
      held = held + 1
    end
  end
  answers[#answers + 1] = answer
end
redis.call('HSET', KEYS[4], 'woken', woken, 'since', since)
if next_begin + next_token ~= had_begun then
  redis.call('HSET', KEYS[4], 'next', string.format('%.3f', next_token), 'begins', string.format('%.3f', next_begin))
end
return { answers, unpack(wake_next(KEYS[3], KEYS[4], most - held, now)) }
