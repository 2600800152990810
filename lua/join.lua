-- join: record how steps of a flow ended, and note in the outbox what follows from that.
--
-- A step counts by its number and its round, so what is told of it twice, or of an earlier round, has no effect. An
-- outcome climbs the tree: a chain goes on with its next member or ends; a group counts its members, lets the next one
-- begin if only some may run at a time, and ends with the last one, or with the first that failed. Nothing climbs past a
-- node that has ended.
--
-- KEYS[1]  flow    HASH  its tree and what is known of it: `n` and the number of a node -> what it is, `o` -> how it
--                        ended, `v` -> its result, `r` -> why it failed, `g` -> its round, `k` -> how many members of a
--                        group have ended, `b` -> how many of them failed, `w` -> how many of its first ones were
--                        let begin, if that is not as many as may run at a time; `done`: how many steps have ended
-- KEYS[2]  outbox  HASH  what is to be done -> since when, in milliseconds since 1970
-- ARGV[1]  id    of the flow (16 bytes)
-- ARGV[…]  for each step, at most 100: its number, its round, the state in which it ended, and the name and the value of a
--          field: `result`, or `reason`; or an empty name
--
-- Returns an array: what is to be done, as it stands in the outbox: the id of the flow, a letter, and the number of a node
-- (4 bytes): `o` open the node, `x` cancel its steps, `e` end the flow.

--! include now

local FIRST, FIELDS = 2, 5
local id, now, todo = ARGV[1], now_ms(), {}
local on_error = redis.call('HGET', KEYS[1], 'on_error')
redis.call('HDEL', KEYS[2], ' ') -- nobody's field: the first write needs no memory, and the last one is allowed

-- Notes that something is to be done with a node.
local function note(letter, number)
  local what = id .. letter .. struct.pack('>I4', number)
  redis.call('HSET', KEYS[2], what, now)
  todo[#todo + 1] = what
end

-- Returns what a node is: kind, parent, place in it, first child, number of children, how many may run at a time (0: all),
-- and the policy of a group.
local function node_of(number)
  return cmsgpack.unpack(redis.call('HGET', KEYS[1], 'n' .. number))
end

-- Lets the next member of a group begin, past those that succeeded before the flow was reopened.
local function let_next_begin(group, first, count, most)
  local place = tonumber(redis.call('HGET', KEYS[1], 'w' .. group) or most)
  while place < count and redis.call('HEXISTS', KEYS[1], 'o' .. first + place) == 1 do
    place = place + 1
  end
  if place < count then
    redis.call('HSET', KEYS[1], 'w' .. group, place + 1)
    note('o', first + place)
  end
end

-- Carries the outcome of a node to those above it.
local function climb(number, ok)
  local node = node_of(number)
  while number ~= 0 do
    local parent = node[2]
    if redis.call('HEXISTS', KEYS[1], 'o' .. parent) == 1 then
      return
    end
    local above = node_of(parent)
    local first, count, most, policy = unpack(above, 4, 7)
    if above[1] == 'c' then
      if ok and node[3] + 1 < count then
        return note('o', number + 1)
      end
    else
      local ended = redis.call('HINCRBY', KEYS[1], 'k' .. parent, 1)
      local failed = redis.call('HINCRBY', KEYS[1], 'b' .. parent, ok and 0 or 1)
      if not ok and policy == 'f' then
        if ended < count then
          note('x', parent)
        end
      elseif ended < count then
        if most > 0 then
          let_next_begin(parent, first, count, most)
        end
        return
      else
        ok = failed == 0 or policy == 's'
      end
    end
    redis.call('HSET', KEYS[1], 'o' .. parent, ok and 'succeeded' or 'dead')
    number, node = parent, above
  end
  if not ok and on_error then
    note('o', on_error)
  end
  note('e', 0)
end

for i = FIRST, #ARGV, FIELDS do
  local number, round, state, field, value = unpack(ARGV, i, i + FIELDS - 1)
  local known, of_round = unpack(redis.call('HMGET', KEYS[1], 'n' .. number, 'g' .. number))
  if known and (of_round or '0') == round and redis.call('HEXISTS', KEYS[1], 'o' .. number) == 0 then
    local is_over, ok = redis.call('HEXISTS', KEYS[1], 'o0') == 1, state == 'succeeded'
    local is_step = number ~= on_error and string.find(known, '^.\161s')
    redis.call('HINCRBY', KEYS[1], 'done', 0) -- fails before anything counts if this user lacks the right
    redis.call('HSET', KEYS[1], 'o' .. number, state)
    if field ~= '' then
      redis.call('HSET', KEYS[1], (field == 'result' and 'v' or 'r') .. number, value)
    end
    if is_step then
      redis.call('HINCRBY', KEYS[1], 'done', 1)
    end
    if number ~= on_error then
      if not ok and redis.call('HEXISTS', KEYS[1], 'failed') == 0 then
        redis.call('HSET', KEYS[1], 'failed', number)
      end
      if not is_over then
        climb(tonumber(number), ok)
      end
    end
  end
end
return todo
