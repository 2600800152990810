-- resume: let workers claim again from a paused queue.
--
-- Workers that listen are notified at once; others notice it with their next beat.
--
-- KEYS[1]  paused  STRING  since when, in milliseconds since 1970, a space, and by whom
-- ARGV[1]  by       who resumes it
-- ARGV[2]  channel  on which workers listen
--
-- Returns what stood in the key, or nil when the queue was not paused.
-- Errors  WRONGTYPE  the key is another program's; nothing was done.

local text = redis.call('GET', KEYS[1])
if text and not string.find(text, '^%d+ ') then
  return redis.error_reply('WRONGTYPE the key of the pause holds something else')
end
if text then
  redis.call('UNLINK', KEYS[1])
  redis.pcall('PUBLISH', ARGV[2], 'resumed ' .. ARGV[1]) -- without the right, workers notice at their next beat
end
return text
