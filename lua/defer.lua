-- defer: move messages from their slots to the timetable, unchanged, until the rate of a limit lets them run.
--
-- No attempt is counted. If the timetable already has an id, or one of its keys holds another type, that
-- message stays.
--
-- KEYS[1]  processing  HASH    wire id -> the message that this slot owns
-- KEYS[2]  worker      HASH    seq: the number of the last call that was applied
-- KEYS[3]  due         ZSET    the timetable: `c` and an id -> when the call is due, in milliseconds since 1970
-- KEYS[4]  later       HASH    id -> the message of a call in the timetable
-- KEYS[5]  timetable   STRING  the process that moves what is due; expires
-- ARGV[1]  seq    the number of this call: one more than the last that was applied
-- ARGV[2]  queue  its name, with which the keys of records begin
-- ARGV[…]  for each message, at most 100: the wire id of its slot, its id (16 bytes; a new one where it has none), and for how
--          many milliseconds it waits
--
-- Returns an array: for each message 1, or 0 when its slot owned nothing any more, or -1 when the timetable cannot take it:
-- then the slot owns it as before.
-- Errors  STALE  another call was to come before this one, this one comes too late, or which one came
--                last is not known and this is not the first; nothing was done.

--! include stale
--! include now
--! include tracked
--! include record

local FIRST, FIELDS = 3, 3
local seq = tonumber(ARGV[1])
local refused = out_of_order(KEYS[2], seq)
if refused then
  return refused
end
local holder = redis.pcall('GET', KEYS[5]) -- not a text: somebody else's key
local first = redis.pcall('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
local kept = redis.pcall('HLEN', KEYS[4])
local is_usable = not first.err and type(kept) == 'number'
local first_due = is_usable and tonumber(first[2])
redis.call('HDEL', KEYS[1], ' ') -- nobody's field: the first write needs no memory, and the last one is allowed
local now, earliest, moved = now_ms(), nil, {}
for i = FIRST, #ARGV, FIELDS do
  local wire_id, id, due = ARGV[i], ARGV[i + 1], now + tonumber(ARGV[i + 2])
  local message = redis.call('HGET', KEYS[1], wire_id)
  local answer = message and 1 or 0
  if message and (not is_usable or redis.call('HEXISTS', KEYS[4], id) == 1) then
    answer = -1
  elseif message then
    redis.call('ZADD', KEYS[3], due, 'c' .. id)
    redis.call('HSET', KEYS[4], id, message)
    redis.call('HDEL', KEYS[1], wire_id)
    earliest = math.min(earliest or due, due)
    local options = options_of(message)
    if options then
      note_state(ARGV[2], options.i, 'scheduled', 'due', due)
    end
  end
  moved[#moved + 1] = answer
end
if earliest and type(holder) == 'string' and (not first_due or earliest < first_due) then
  redis.call('UNLINK', KEYS[5])
end
redis.call('HSET', KEYS[2], 'seq', seq)
return moved
