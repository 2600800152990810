-- requeue_lost: move what dead slots own to the head of the queue, or to the dead letters.
--
-- Looks at a part of the slots; the caller comes back with the cursor until it is 0. A slot is dead
-- when it has no live key; what the living own is not read, unless there are thousands of slots.
--
-- What a process owned when it died may have killed it: its death is counted for each message, once
-- however many slots held the same bytes, and once for processes that fell together, whose slots one
-- sweep finds. A message that took too many processes down, one after the other, is buried; where the
-- key of the dead letters holds another type, it stays where it is. A count to which no death was added
-- for long is forgotten, also when its message went unseen, as in a worker that is not ours: some of the
-- counts are looked at in each call.
--
-- KEYS[1]  queue          LIST    waiting messages, oldest first
-- KEYS[2]  notifications  LIST    one token for each waiting message
-- KEYS[3]  processing     HASH    wire id -> the message that this slot owns
-- KEYS[4]  dead           STREAM  dead letters, oldest first
-- KEYS[5]  deaths         HASH    SHA-1 of a message -> deaths, when the last was counted (ms), and
--                                 the processes that died
-- ARGV[1]  cursor      0 at first
-- ARGV[2]  count       how many dead slots to empty, and of thousands to look at, about
-- ARGV[3]  max_deaths  at which a message is buried
-- ARGV[4]  forget      milliseconds after which a count without a death is forgotten
-- ARGV[5]  max_count   how many dead letters are kept
-- ARGV[6]  max_age     for how many milliseconds they are kept
-- ARGV[7]  since       when this event began, in milliseconds of the server's clock: a death that was
--                      counted from then on is the same one
--
-- Reads the live key of each slot under the name of its field.
-- Returns an array: the next cursor, the number of messages requeued, the number buried, the wire ids of
-- their dead slots, and the number of messages that could not be buried.

local owned, counts = redis.call('HLEN', KEYS[3]), redis.call('HLEN', KEYS[5])
if owned == 0 and counts == 0 then
  return { 0, 0, 0, {}, 0 }
end
redis.call('LLEN', KEYS[1])
redis.call('LLEN', KEYS[2])
local letters = redis.pcall('XLEN', KEYS[4])
local may_bury = type(letters) == 'number'
if not may_bury and not string.find(letters.err, 'WRONGTYPE', 1, true) then
  return letters
end

local FEW, MANY = 20, 2000 -- counts that are looked at, and slots whose names are a short list
local max_deaths = tonumber(ARGV[3])
local forget = math.min(tonumber(ARGV[4]), 1e14) -- PEXPIRE raises when the time overflows
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local oldest, since = math.max(0, now - tonumber(ARGV[6])), tonumber(ARGV[7])
local count = tonumber(ARGV[2])
local cursor, slots, step = 0, nil, 1
if owned <= MANY then
  slots = redis.call('HKEYS', KEYS[3])
else
  local scan = redis.call('HSCAN', KEYS[3], ARGV[1], 'COUNT', count)
  cursor, slots, step = tonumber(scan[1]), scan[2], 2
end

local function is_old(at)
  return math.abs(now - at) > forget -- a clock may have gone back
end

if counts > 0 then
  local some = redis.call('HRANDFIELD', KEYS[5], FEW, 'WITHVALUES')
  for i = 1, #some, 2 do
    if is_old(tonumber(string.match(some[i + 1], '^%d+ (%d+)') or 0)) then
      redis.call('HDEL', KEYS[5], some[i])
    end
  end
end

local requeued, buried, unburied, dead = 0, 0, 0, {}
local is_counted = false
-- ours are queue:worker:slot; an ancestor's worker has one slot, named as the worker
local ours = '^(.+:' .. string.rep('[a-z2-7]', 16) .. '):%d+$'
local counted = {} -- by digest: whether this call has counted a death
for i = 1, #slots, step do
  if step == 1 and #dead == count then
    cursor = 1 -- not 0: there are more
    break
  end
  local id = slots[i]
  local message = redis.call('EXISTS', id) == 0 and redis.call('HGET', KEYS[3], id)
  if message then
    local process = string.match(id, ours) or id
    local digest = redis.sha1hex(message)
    local known = redis.call('HGET', KEYS[5], digest) or ''
    local deaths, at, processes = string.match(known, '^(%d+) (%d+) (.+)$')
    deaths, at, processes = tonumber(deaths) or 0, tonumber(at) or 0, processes or ''
    if is_old(at) then
      deaths, processes = 0, ''
    end
    local same = counted[digest] or (deaths > 0 and at >= since and at <= now) -- a clock may have gone back
    local new = not same and not string.find(' ' .. processes .. ' ', ' ' .. process .. ' ', 1, true)
    counted[digest] = true
    deaths = math.max(1, deaths + (new and 1 or 0))
    if deaths >= max_deaths and not may_bury then
      unburied = unburied + 1
    else
      dead[#dead + 1] = id
      if #dead == 1 then
        redis.call('HDEL', KEYS[3], ' ') -- nobody's field: the first write needs no memory, and the last one is allowed
      end
      if deaths >= max_deaths then
        redis.call('XTRIM', KEYS[4], 'MINID', oldest)
        redis.call('XADD', KEYS[4], 'MAXLEN', ARGV[5], '*', 'message', message, 'reason', 'lost',
          'detail', deaths .. ' processes died while they owned this message, the last one as ' .. id,
          'attempt', deaths, 'worker', id)
        redis.call('HDEL', KEYS[5], digest)
        buried = buried + 1
      else
        if new then
          processes = string.sub(processes, -4000) -- as many names as are worth remembering
          redis.call('HSET', KEYS[5], digest, string.format('%d %.0f %s %s', deaths, now, processes, process))
          is_counted = true
        end
        redis.call('LPUSH', KEYS[1], message)
        redis.call('LPUSH', KEYS[2], '1')
        requeued = requeued + 1
      end
      redis.call('HDEL', KEYS[3], id) -- last, so that nothing is lost
    end
  end
end
if is_counted then
  redis.call('PEXPIRE', KEYS[5], forget)
end
return { cursor, requeued, buried, dead, unburied }
