-- requeue_lost: move messages of dead slots to the head of the queue, or to the dead letters.
--
-- Each call checks a part of the slots; the caller repeats it with the returned cursor until that is 0. A slot is
-- dead if it has no live key.
--
-- Any message that a process owned when it died may have killed it, and so may any message with the same bytes. So
-- the death counts for these bytes: once, however many slots held them, and once for processes that died together,
-- whose slots one sweep finds. From the second death on, messages with these bytes are suspects, and a worker runs
-- each alone. Only a death in such a run counts against that call itself. A call with enough such deaths is buried;
-- if the key of the dead letters holds another type, or the outbox cannot take the outcome of a step of a flow, it stays
-- where it is. The data about a call moves with it from the slot to the head of the queue, where the next claim finds
-- it: equal messages differ only by their positions. A
-- count without a new death for a long time is forgotten, even if its message went unseen, as in a worker of another
-- implementation: each call checks some of the counts. Values of another program under the keys of deaths or dead
-- letters stay.
--
-- A live key may last longer than any lease of its worker: because the server's clock was set back, or because it
-- never expires. It is cut to that lease; a living worker renews it.
--
-- KEYS[1]  queue          LIST    waiting messages, oldest first
-- KEYS[2]  notifications  LIST    one token for each waiting message
-- KEYS[3]  processing     HASH    wire id -> the message that this slot owns
-- KEYS[4]  dead           STREAM  dead letters, oldest first
-- KEYS[5]  deaths         HASH    SHA-1 of a message -> deaths, when the last was counted (ms), what is
--                                 known of single calls of it, and the processes that died
-- ARGV[1]  cursor      0 at first
-- ARGV[2]  count       how many dead slots to empty, and of thousands to look at, about
-- ARGV[3]  max_deaths  of runs of a call alone, at which it is buried
-- ARGV[4]  forget      milliseconds after which a count without a death is forgotten
-- ARGV[5]  max_count   how many dead letters are kept
-- ARGV[6]  max_age     for how many milliseconds they are kept
-- ARGV[7]  since       when this event began, in milliseconds of the server's clock: a death that was
--                      counted from then on is the same one
--
-- Reads the live key of each slot under the name of its field, and the info of its worker.
-- Returns an array: the next cursor, the number of messages requeued, the number buried, the wire ids of
-- their dead slots, the number of messages that could not be buried, and the ids of the dead letters of those that were.

--! include now
--! include deaths
--! include letters
--! include tracked
--! include record

local owned, counts = redis.call('HLEN', KEYS[3]), redis.call('HLEN', KEYS[5])
if owned == 0 and counts == 0 then
  return { 0, 0, 0, {}, 0, {} }
end
redis.call('LLEN', KEYS[1])
redis.call('LLEN', KEYS[2])
local may_bury, failed = count_letters(KEYS[4])
if failed then
  return failed
end

local DEFAULT_LEASE, LONGEST_LEASE = 6000, 86400000
local FEW, MANY = 20, 2000 -- counts that are looked at, and slots whose names are a short list
local MOST = 2000 -- bytes that tell of single calls
local max_deaths = tonumber(ARGV[3])
local forget = math.min(tonumber(ARGV[4]), 1e14) -- PEXPIRE raises when the time overflows
local now = now_ms()
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

local all_ours = true
if counts > 0 then
  local some = redis.call('HRANDFIELD', KEYS[5], FEW, 'WITHVALUES')
  for i = 1, #some, 2 do
    local is_ours = is_digest(some[i])
    all_ours = all_ours and is_ours
    if is_ours and is_old(tonumber(string.match(some[i + 1], '^%d+ (%d+)') or 0)) then
      redis.call('HDEL', KEYS[5], some[i])
    end
  end
end

local requeued, unburied, dead, buried = 0, 0, {}, {}
local is_counted = false
-- ids are queue:worker:slot; a worker of an original implementation has one slot, named like the worker
local ours = '^(.+:' .. string.rep('[a-z2-7]', 16) .. '):%d+$'
local leases = {} -- by process: how long its live keys last at the most

local function is_dead(id)
  local left = redis.call('PTTL', id)
  local process = string.match(id, ours) -- a worker of another kind names its own time
  if process and (left == -1 or left > DEFAULT_LEASE) then
    if not leases[process] then
      local info = redis.pcall('HGET', process, 'info')
      local is_read, fields = pcall(cmsgpack.unpack, type(info) == 'string' and info or '')
      leases[process] = is_read and type(fields) == 'table' and tonumber(fields.lease_ms) or LONGEST_LEASE
    end
    if left == -1 or left > leases[process] then
      redis.call('PEXPIRE', id, leases[process])
    end
  end
  return left == -2
end

local counted = {} -- by digest: whether this call has counted a death
for i = 1, #slots, step do
  if step == 1 and #dead == count then
    cursor = 1 -- not 0: there are more
    break
  end
  local id = slots[i]
  local message = is_dead(id) and redis.call('HGET', KEYS[3], id)
  if message then
    local process = string.match(id, ours) or id
    local digest = redis.sha1hex(message)
    local known = redis.call('HGET', KEYS[5], digest) or ''
    local deaths, at, processes = string.match(known, '^(%d+) (%d+) (.+)$')
    deaths, at, processes = tonumber(deaths) or 0, tonumber(at) or 0, processes or ''
    if is_old(at) then
      deaths, processes = 0, ''
    end
    local before, others = string.match(processes, '^=([^ ]*) ?(.*)$')
    before, processes = before or '', others or processes
    local same = counted[digest] or (deaths > 0 and at >= since and at <= now) -- a clock may have gone back
    local new = not same and not string.find(' ' .. processes .. ' ', ' ' .. process .. ' ', 1, true)
    counted[digest] = true
    deaths = math.max(1, deaths + (new and 1 or 0))
    local calls, own, ran = before, 0, false -- own: deaths of this call; ran: alone, when this process died
    if process ~= id then
      calls, own, ran = without_slot(calls, slot_of(id))
    end
    own = tonumber(own) + (ran and 1 or 0)
    local is_over, options = ran and own >= max_deaths, options_of(message)
    if is_over and (not may_bury or outbox_error(KEYS[1], options)) then
      unburied = unburied + 1
    else
      dead[#dead + 1] = id
      if #dead == 1 then
        redis.call('HDEL', KEYS[3], ' ') -- nobody's field: the first write needs no memory, and the last one is allowed
      end
      if is_over then
        local died = own == 1 and ' process died while it' or ' processes died, one after the other, while each'
        redis.call('XTRIM', KEYS[4], 'MINID', oldest)
        buried[#buried + 1] = redis.call('XADD', KEYS[4], 'MAXLEN', ARGV[5], '*', 'message', message, 'reason', 'lost',
          'detail', own .. died .. ' ran this call alone, the last one as ' .. id, 'attempt', own, 'worker', id)
      else
        local waiting, owners = string.match(calls, '^([%d,]*)(.*)$')
        if own > 0 or waiting ~= '' then
          calls = string.sub(own .. (waiting == '' and '' or ',') .. waiting, 1, MOST) .. owners
        end
      end
      if is_over and calls == '' then -- nothing else is known of these bytes
        redis.call('HDEL', KEYS[5], digest)
      elseif new or calls ~= before then
        processes = string.sub(processes, -4000) .. (new and ' ' .. process or '') -- as many names as are worth remembering
        local known_calls = calls == '' and '' or '=' .. calls .. ' '
        local counted_at = (new or ran) and now or at
        redis.call('HSET', KEYS[5], digest, string.format('%d %.0f %s%s', deaths, counted_at, known_calls, processes))
        is_counted = true
      end
      if not is_over then
        redis.call('LPUSH', KEYS[1], message)
        redis.call('LPUSH', KEYS[2], '1')
        requeued = requeued + 1
      end
      redis.call('HDEL', KEYS[3], id) -- last, so that nothing is lost
      if options and is_over then
        note_end(KEYS[1], options, now, 'dead', 'reason', 'lost', 'letter', buried[#buried])
      elseif options then
        note_state(KEYS[1], options.i, 'waiting')
      end
    end
  end
end
if is_counted and all_ours then
  redis.call('PEXPIRE', KEYS[5], forget)
end
return { cursor, requeued, #buried, dead, unburied, buried }
