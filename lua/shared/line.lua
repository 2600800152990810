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
