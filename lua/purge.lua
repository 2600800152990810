-- purge: drop waiting messages, oldest first, with their tokens.
--
-- Messages that wait for a limit have no tokens. Entries that are not tokens stay, because a list of that name
-- may belong to another program. Recorded deaths are dropped, too: those of the first of several equal messages
-- may belong to a dropped one.
--
-- KEYS[1]  queue          LIST  waiting messages, or those that wait for a limit, oldest first
-- KEYS[2]  notifications  LIST  one token for each waiting message
-- KEYS[3]  deaths         HASH  SHA-1 of a message -> deaths, and what is known of single calls of it
-- ARGV[1]  count  how many at the most; the caller sends at most 10000
-- ARGV[2]  queue  its name, with which the keys of records and locks begin
--
-- The records of dropped calls say that they were cancelled, and their locks are free.
--
-- Returns the number of messages that were dropped.

--! include deaths
--! include now
--! include tracked
--! include record

local STEP = 100 -- messages that are read at a time

local waiting = redis.call('LLEN', KEYS[1])
local has_tokens = KEYS[1] == ARGV[2]
local tokens = redis.call('LLEN', KEYS[2])
local count, refused = math.min(tonumber(ARGV[1]), waiting), nil
local digests = redis.call('HKEYS', KEYS[3])
if count > 0 then
  for _, digest in ipairs(digests) do
    if is_digest(digest) then
      redis.call('HDEL', KEYS[3], digest)
    end
  end
  local now = now_ms()
  for first = 0, count - 1, STEP do
    for place, message in ipairs(redis.call('LRANGE', KEYS[1], first, math.min(first + STEP, count) - 1)) do
      local options = options_of(message)
      refused = outbox_error(ARGV[2], options)
      if refused then -- those before it are dropped
        count = first + place - 1
        break
      end
      if options then
        redis.pcall('ZREM', ARGV[2] .. '_cancelled', options.i)
        note_end(ARGV[2], options, now, 'cancelled', 'by', 'purge')
      end
    end
    if refused then
      break
    end
  end
  redis.call('LTRIM', KEYS[1], count, -1)
end
local surplus = tokens - (waiting - count)
if has_tokens and count > 0 and surplus > 0 then -- LREM takes a 0 for all
  redis.call('LREM', KEYS[2], math.min(surplus, count), '1')
end
return refused or count
