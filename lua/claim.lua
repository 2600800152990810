-- claim: release the messages of finished slots, and move waiting messages into free slots.
--
-- One call does both, because a worker that finishes a batch needs the next one. A slot that is released and claimed
-- again is overwritten in place: HSET returns how many fields were new, and thus how many of the released messages
-- the worker had lost. The reply ends with the message that makes it large; messages popped behind that one go back
-- and come with a later claim. Entries that are not tokens go back, too.
--
-- KEYS[1]  queue          LIST    waiting messages, oldest first
-- KEYS[2]  notifications  LIST    one token for each waiting message
-- KEYS[3]  processing     HASH    wire id -> the message that this slot owns
-- KEYS[4]  worker         HASH    seq: the number of the last call that was applied
-- KEYS[5]  deaths         HASH    SHA-1 of a message -> deaths of processes that owned it, and the own
--                                 deaths of calls that wait, which go with the message into its slot
-- KEYS[6]  hand           LIST    tokens that workers were woken with, until their claims come
-- KEYS[7]  paused         STRING  since when, in milliseconds since 1970, a space, and by whom
-- KEYS[8]  cancelled      ZSET    id -> when a waiting call was cancelled
-- ARGV[1]  seq            the number of this call: one more than the last that was applied
-- ARGV[2]  lease          milliseconds that a live key is good for
-- ARGV[3]  in_hand        the caller's token: 0 none, 1 popped already, 2 in the hand, if it is still there
-- ARGV[4]  renew          1 when the live keys of the free slots need a new lease, else 0
-- ARGV[5]  forgive        how many of the wire ids, from the first on, succeeded and may be suspects
-- ARGV[6]  released       how many of the wire ids, from the first on, are released
-- ARGV[7]  kept           how many of the wire ids, from the first on, are released and not claimed again
-- ARGV[…]  the wire ids, at most 1000: released ones first, free ones last, a slot that is both once
--
-- Returns an array: how many released messages this worker owned no more, how many messages still
-- wait, 0 without suspects, 1 with, 2 when the one claimed message is a suspect that is to run alone,
-- and an array of the claimed messages, for the wire ids behind the kept: less than 8 MiB, and one more;
-- then, if there are any, an array of the places of those that were cancelled, from 1 on.
-- Many that are short may come as one string, that array in MessagePack: one is sooner read than many.
-- A fifth value is what stands in `paused`: the queue is paused, and nothing was claimed.
-- Errors  STALE  another call was to come before this one, this one comes too late, which one came last
--                is not known and this is not the first, or a slot that the caller takes for free owns a
--                message; nothing was done.

--! include stale
--! include paused
--! include marks

local BEFORE_IDS = 7
local STEP, ENOUGH = 64, 8388608 -- messages popped at a time, and bytes of a large reply
local MANY, SHORT, pack = 16, 64, cmsgpack.pack -- claimed at a time, and bytes of each on average
local TOKEN, MOST = '1', 10000 -- and how many of them are dropped at a time
local NOBODY, LONG = ' ', string.rep('-', 100) -- a field that nobody has, and a value that is kept in no small hash
local released, kept = tonumber(ARGV[6]), tonumber(ARGV[7])
local free, overlap = #ARGV - BEFORE_IDS - kept, released - kept -- overlap: released and claimed again
local behind = BEFORE_IDS + kept -- the wire ids behind this place are claimed, one after the other

-- Step 1, check: the call is the next one, and each slot that it may fill is free. Nothing is written.

local seq = tonumber(ARGV[1])
local refused, last = out_of_order(KEYS[4], seq)
if refused then
  return refused
end
local paused, denied, is_marked = false, false, false
if free > 0 and redis.call('EXISTS', KEYS[7], KEYS[8]) > 0 then -- the queue is paused, or calls that wait are cancelled
  paused, denied = find_pause(KEYS[7])
  is_marked, denied = true, denied or marks_denied(KEYS[8])
end
if denied then
  return denied
end
local moved = ARGV[3] == '2'
local in_hand = moved and (redis.call('LINDEX', KEYS[6], -1) == TOKEN and 1 or 0) or tonumber(ARGV[3])
local waiting, tokens = redis.call('LLEN', KEYS[1]), redis.call('LLEN', KEYS[2])
local wanted, held = paused and 0 or math.min(free, waiting, tokens + in_hand), redis.call('HLEN', KEYS[3])
if held > 0 and wanted > overlap then
  local first, last_id = BEFORE_IDS + released + 1, behind + wanted
  for _, message in ipairs(redis.call('HMGET', KEYS[3], unpack(ARGV, first, last_id))) do
    if message then -- would be overwritten, and lost
      return redis.error_reply('STALE a slot that should be free owns a message')
    end
  end
end

-- Step 2, clear: messages that succeeded are no longer suspects.

local suspects = math.min(1, redis.call('HLEN', KEYS[5]))
for i = 1, tonumber(ARGV[5]) do
  local message = redis.call('HGET', KEYS[3], ARGV[BEFORE_IDS + i])
  if message then
    redis.call('HDEL', KEYS[5], redis.sha1hex(message))
  end
end

-- Step 3, prepare: do everything that Redis may refuse before a message is taken, because a user without the
-- permission could not put it back.

redis.call('HDEL', KEYS[3], NOBODY) -- the first write needs no memory, and those of what is released are allowed
if wanted > 0 then
  redis.call('HSET', KEYS[4], 'seq', seq - 1) -- as it was
  if ARGV[4] == '1' or redis.call('EXISTS', unpack(ARGV, behind + 1, behind + wanted)) < wanted then
    for i = behind + 1, behind + wanted do
      redis.call('SET', ARGV[i], '1', 'PX', ARGV[2])
    end
  end
end

-- Step 4, take: pop messages until there are enough or the reply is large, and only one if it must run alone.

local messages, bytes, keep, digest, known = {}, 0, 0, nil, nil
if wanted > 0 then
  messages = redis.call('LPOP', KEYS[1], math.min(wanted, STEP))
  repeat
    for i = keep + 1, #messages do
      bytes = bytes + #messages[i]
    end
    keep = #messages
    if keep < wanted and bytes < ENOUGH then
      for i, message in ipairs(redis.call('LPOP', KEYS[1], math.min(wanted - keep, STEP))) do
        messages[keep + i] = message
      end
    end
  until keep == #messages
  while bytes - #messages[keep] >= ENOUGH do
    bytes, keep = bytes - #messages[keep], keep - 1
  end
  if suspects == 1 then
    --! include deaths
    for i = 1, keep do
      digest = redis.sha1hex(messages[i])
      known = redis.call('HGET', KEYS[5], digest)
      if is_suspect(known) then
        suspects, keep = i == 1 and 2 or 1, math.max(i - 1, 1)
        break
      end
    end
  end
  while #messages > keep and type(redis.pcall('LPUSH', KEYS[1], messages[#messages])) == 'number' do
    table.remove(messages) -- one that may not go back is claimed too
  end
  suspects = #messages > 1 and math.min(suspects, 1) or suspects
end

-- Step 5, settle: the slots own the taken messages and none of the released ones, and the tokens are removed.

local lost, claimed, fields, places = 0, #messages, {}, nil
local small = claimed >= MANY and held < claimed
for i = 1, claimed do
  fields[2 * i - 1] = ARGV[behind + i]
  fields[2 * i] = messages[i]
end
if small then -- is searched from its beginning, unless it holds, or held, a long value: then it counts as large
  fields[#fields + 1], fields[#fields + 2] = NOBODY, LONG
end
if claimed > 0 then
  lost = redis.call('HSET', KEYS[3], unpack(fields)) - math.max(0, claimed - overlap)
end
if suspects == 2 then
  --! include deaths
  --! include suspects
  move_own_deaths(KEYS[5], digest, known, ARGV[behind + 1])
end
redis.call('HSET', KEYS[4], 'seq', seq) -- whatever is refused from here on: what is owned came with this call
local over = { unpack(ARGV, BEFORE_IDS + 1, behind) } -- released, with no new message
for i = kept + claimed + 1, released do
  over[#over + 1] = ARGV[BEFORE_IDS + i]
end
lost, over[#over + 1] = lost + #over, small and NOBODY or nil
if #over > 0 then
  lost = lost - redis.call('HDEL', KEYS[3], unpack(over))
end
if waiting == 0 and (tokens > 0 or moved) then
  for _, key in ipairs({ KEYS[2], moved and KEYS[6] or nil }) do
    if redis.call('LINDEX', key, 0) == TOKEN then redis.call('LREM', key, MOST, TOKEN) end
  end
end
if claimed > in_hand then
  local taken = redis.call('LPOP', KEYS[2], claimed - in_hand) or {}
  for i = #taken, 1, -1 do
    if taken[i] ~= TOKEN then redis.call('LPUSH', KEYS[2], taken[i]) end -- another program's
  end
end
if claimed > 0 and moved and in_hand == 1 then
  redis.call('RPOP', KEYS[6])
end
if not last then
  redis.call('PEXPIRE', KEYS[4], 4 * tonumber(ARGV[2])) -- a beat made it, or will renew it
end
if is_marked then
  --! include tracked
  --! include cancelled
  places = marked_among(KEYS[8], messages)
end
local packs = claimed >= MANY and bytes <= SHORT * claimed
return { lost, waiting - claimed, suspects, packs and pack(messages) or messages, paused or places }
