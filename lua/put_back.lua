-- put_back: move messages from their slots back to the queue, unchanged.
--
-- Messages go to the head if a worker shuts down, could get no process for them, or has claimed them ahead of a
-- long run: they have waited longest, and no attempt is counted. Messages go to the tail if their tasks belong
-- to another worker, so that it can claim them and this one does not spin. The data about a single call goes
-- with it to the head, and is forgotten if it goes to the tail.
--
-- KEYS[1]  queue          LIST  waiting messages, oldest first
-- KEYS[2]  notifications  LIST  one token for each waiting message
-- KEYS[3]  processing     HASH  wire id -> the message that this slot owns
-- KEYS[4]  worker         HASH  seq: the number of the last call that was applied
-- KEYS[5]  deaths         HASH  SHA-1 of a message -> deaths, and what is known of single calls of it
-- ARGV[1]  seq    the number of this call: one more than the last that was applied
-- ARGV[2]  place  head or tail
-- ARGV[…]  wire ids, oldest claim first; the caller sends at most 1000
--
-- Returns the number of messages that were put back; the other slots owned nothing any more.
-- Errors  STALE  another call was to come before this one, this one comes too late, or which one came
--                last is not known and this is not the first; nothing was done.

--! include stale
--! include deaths
--! include tracked
--! include record

local seq = tonumber(ARGV[1])
local refused = out_of_order(KEYS[4], seq)
if refused then
  return refused
end
redis.call('LLEN', KEYS[1])
redis.call('LLEN', KEYS[2])
local suspects = redis.call('HLEN', KEYS[5])

-- Removes the data about this call from its slot.
local function let_go(id, message)
  local digest = redis.sha1hex(message)
  local known = redis.call('HGET', KEYS[5], digest) or ''
  local before, own, after = string.match(known, '^(%d+ %d+ )=([^ ]*) ?(.*)$')
  if not before then
    return
  end
  local rest, deaths = without_slot(own, slot_of(id))
  local is_first = not string.find(rest, '^%d')
  if ARGV[2] == 'head' and not (is_first and deaths == '0') then
    rest = deaths .. (is_first and '' or ',') .. rest
  end
  if rest ~= own then
    redis.call('HSET', KEYS[5], digest, before .. (rest == '' and '' or '=' .. rest .. ' ') .. after)
  end
end

local first, last, step, push = 3, #ARGV, 1, 'RPUSH'
if ARGV[2] == 'head' then
  first, last, step, push = #ARGV, 3, -1, 'LPUSH'
end
local count = 0
redis.call('HDEL', KEYS[3], ' ') -- nobody's field: the first write needs no memory, and the last one is allowed
for i = first, last, step do
  local message = redis.call('HGET', KEYS[3], ARGV[i])
  if message then
    if suspects > 0 then
      let_go(ARGV[i], message)
    end
    redis.call(push, KEYS[1], message)
    redis.call(push, KEYS[2], '1')
    redis.call('HDEL', KEYS[3], ARGV[i])
    count = count + 1
    local options = options_of(message)
    if options then
      note_state(KEYS[1], options.i, 'waiting')
    end
  end
end
redis.call('HSET', KEYS[4], 'seq', seq)
return count
