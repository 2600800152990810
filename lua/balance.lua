-- balance: make the number of tokens of a queue equal to the number of its messages.
--
-- The caller has watched the gap for a while and says how much of it is real: a token that a worker holds
-- between its BLPOP and its claim is no gap. A write that needs no memory comes first, so that the workers of a
-- full Redis can be woken to drain it. A message may lack a token that is in the hand, or one that does not
-- exist. Tokens of the second kind are created first, because a claim may be about to use those in the hand;
-- then tokens left in the hand are moved back, or dropped if no message lacks one.
--
-- Removes nothing but tokens, because a list of that name may belong to another program. A list that begins or
-- ends with something else is left alone.
--
-- KEYS[1]  queue          LIST  waiting messages, oldest first
-- KEYS[2]  notifications  LIST  one token for each waiting message
-- KEYS[3]  hand           LIST  tokens that workers were woken with, until their claims come
-- ARGV[1]  gap    tokens to add, or to take away when negative; at most 10000 are changed in a call
-- ARGV[2]  moved  1 when the caller gives back what it was woken with: only what is in the hand is added; else 0
--
-- Returns the number of tokens added (negative: taken away).

local wanted = tonumber(ARGV[1])
local gap = redis.call('LLEN', KEYS[1]) - redis.call('LLEN', KEYS[2])
local TOKEN = '1'
local function holds_tokens(key)
  return redis.call('LINDEX', key, 0) == TOKEN and redis.call('LINDEX', key, -1) == TOKEN
end
local hand = holds_tokens(KEYS[3]) and redis.call('LLEN', KEYS[3]) or 0
if gap <= 0 and hand > 0 then
  redis.call('LREM', KEYS[3], 10000, TOKEN)
end
if wanted > 0 and gap > 0 then
  local add = math.min(wanted, gap, 10000)
  redis.call('PERSIST', KEYS[2]) -- needs no memory
  local made = math.min(add, math.max(gap - hand, 0))
  if ARGV[2] == '1' then
    add, made = math.min(add, hand), 0
  end
  for _ = made + 1, add do
    redis.call('LREM', KEYS[3], 1, TOKEN)
    redis.call('RPUSH', KEYS[2], TOKEN)
  end
  for first = 1, made, 1000 do
    local tokens = {}
    for i = 1, math.min(1000, made - first + 1) do
      tokens[i] = TOKEN
    end
    redis.call('RPUSH', KEYS[2], unpack(tokens))
  end
  return add
elseif wanted < 0 and gap < 0 and holds_tokens(KEYS[2]) then
  return -redis.call('LREM', KEYS[2], math.min(-wanted, -gap, 10000), TOKEN)
end
return 0
