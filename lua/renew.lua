-- renew: renew the leases of calls that hold a limit.
--
-- A call that the limit has forgotten, or that has given it back meanwhile, does not hold it again.
--
-- KEYS[1]  holders  ZSET  a wire id, `#` and a number -> when this lease ends, in milliseconds since 1970
-- ARGV[1]  lease    in milliseconds
-- ARGV[…]  who holds the limit, at most 1000
--
-- Returns how many of them hold it.

--! include now

local ends, held = now_ms() + tonumber(ARGV[1]), 0
redis.call('ZREM', KEYS[1], ' ') -- nobody's: the first write needs no memory
for i = 2, #ARGV do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    redis.call('ZADD', KEYS[1], 'XX', ends, ARGV[i])
    held = held + 1
  end
end
return held
