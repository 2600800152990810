-- revive: move dead letters back to the tail of the queue.
--
-- KEYS[1]  queue          LIST    waiting messages, oldest first
-- KEYS[2]  notifications  LIST    one token for each waiting message
-- KEYS[3]  dead           STREAM  dead letters, oldest first
-- ARGV[…]  pairs: the id of a dead letter, and its message with the attempts forgotten, or an empty string where that is
--          the message as it stands there; at most 500 pairs
--
-- Returns the number of messages that were put back; the others were gone already.

--! include tracked
--! include record

redis.call('LLEN', KEYS[1])
redis.call('LLEN', KEYS[2])
redis.call('XDEL', KEYS[3], '0-0') -- nobody's letter: the first write needs no memory, and the last one is allowed
local count = 0
for i = 1, #ARGV, 2 do
  local letter, message = redis.call('XRANGE', KEYS[3], ARGV[i], ARGV[i])[1], ARGV[i + 1]
  if letter then
    local fields = message == '' and letter[2] or {}
    for field = 1, #fields, 2 do
      message = fields[field] == 'message' and fields[field + 1] or message
    end
    redis.call('RPUSH', KEYS[1], message)
    redis.call('RPUSH', KEYS[2], '1')
    redis.call('XDEL', KEYS[3], ARGV[i])
    count = count + 1
    local options = options_of(message)
    if options then
      note_state(KEYS[1], options.i, 'waiting')
    end
  end
end
return count
