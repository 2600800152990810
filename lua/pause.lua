-- pause: stop workers of this library from claiming from a queue, until it is resumed.
--
-- Workers that listen are notified at once; others notice it with their next claim or beat.
--
-- KEYS[1]  paused  STRING  since when, in milliseconds since 1970, a space, and by whom
-- ARGV[1]  by       who pauses it
-- ARGV[2]  channel  on which workers listen
--
-- Returns an array: 1 when the queue was not paused before, else 0, and what stands in the key.
-- Errors  WRONGTYPE  the key is another program's; nothing was done.

--! include now

local text = redis.call('GET', KEYS[1])
if text then
  return string.find(text, '^%d+ ') and { 0, text }
    or redis.error_reply('WRONGTYPE the key of the pause holds something else')
end
text = string.format('%.0f %s', now_ms(), ARGV[1])
redis.call('PERSIST', KEYS[1]) -- nothing yet: the first write needs no memory
redis.call('SET', KEYS[1], text)
redis.pcall('PUBLISH', ARGV[2], 'paused ' .. ARGV[1]) -- without the right, workers notice at their next claim
return { 1, text }
