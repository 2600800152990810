-- purge: drop waiting messages, oldest first, with their tokens.
--
-- KEYS[1]  queue          LIST  waiting messages, oldest first
-- KEYS[2]  notifications  LIST  one token for each waiting message
-- ARGV[1]  count  how many at the most; the caller sends at most 10000
--
-- Returns the number of messages that were dropped.

local waiting = redis.call('LLEN', KEYS[1])
local tokens = redis.call('LLEN', KEYS[2])
local count = math.min(tonumber(ARGV[1]), waiting)
if count > 0 then
  redis.call('LTRIM', KEYS[1], count, -1)
end
local surplus = tokens - (waiting - count)
if surplus > 0 then
  redis.call('LTRIM', KEYS[2], math.min(surplus, count), -1)
end
return count
