-- enqueue: append messages to a queue, each with its token.
--
-- One step, so a message never waits without the token that wakes a worker. Nothing is pushed when
-- one of the keys has the wrong type.
--
-- KEYS[1]  queue          LIST  waiting messages, oldest first
-- KEYS[2]  notifications  LIST  one token for each waiting message
-- ARGV[…]  the messages, at least one; the caller sends at most 1000
--
-- Returns the number of messages that wait now.

redis.call('LLEN', KEYS[2]) -- raises on a wrong type before anything is written
local waiting = redis.call('RPUSH', KEYS[1], unpack(ARGV))
local tokens = {}
for i = 1, #ARGV do
  tokens[i] = '1'
end
redis.call('RPUSH', KEYS[2], unpack(tokens))
return waiting
