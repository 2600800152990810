-- balance: make the notifications of a queue as many as its messages.
--
-- The caller has watched the gap for a while and says how much of it is real: a token that a worker
-- holds between its BLPOP and its claim is no gap. A write that needs no memory comes first, so the
-- workers of a Redis that is full can be woken to drain it. A message may lack a token that is in the
-- hand, or one that is nowhere. The latter are made first, since a claim may just be coming for what is
-- in the hand; then those are moved back that were left there. They are dropped where no message lacks one.
--
-- KEYS[1]  queue          LIST  waiting messages, oldest first
-- KEYS[2]  notifications  LIST  one token for each waiting message
-- KEYS[3]  hand           LIST  tokens that workers were woken with, until their claims come
-- ARGV[1]  gap  tokens to add, or to take away when negative; at most 10000 are changed in a call
--
-- Returns the number of tokens added (negative: taken away).

local wanted = tonumber(ARGV[1])
local gap = redis.call('LLEN', KEYS[1]) - redis.call('LLEN', KEYS[2])
local hand = redis.call('LLEN', KEYS[3])
if gap <= 0 and hand > 0 then
  redis.call('UNLINK', KEYS[3])
end
if wanted > 0 and gap > 0 then
  local add = math.min(wanted, gap, 10000)
  redis.call('PERSIST', KEYS[2]) -- needs no memory
  local made = math.min(add, math.max(gap - hand, 0))
  for _ = made + 1, add do
    redis.call('LMOVE', KEYS[3], KEYS[2], 'LEFT', 'RIGHT')
  end
  for first = 1, made, 1000 do
    local tokens = {}
    for i = 1, math.min(1000, made - first + 1) do
      tokens[i] = '1'
    end
    redis.call('RPUSH', KEYS[2], unpack(tokens))
  end
  return add
elseif wanted < 0 and gap < 0 then
  local take = math.min(-wanted, -gap, 10000)
  redis.call('LPOP', KEYS[2], take)
  return -take
end
return 0
