-- begin: record that a worker begins to run a suspect, alone, so that its death counts against this call.
--
-- Only the worker knows that a run begins: a claimed message may not have begun yet, or may call a task of
-- another worker and only be passed on.
--
-- KEYS[1]  processing  HASH  wire id -> the message that this slot owns
-- KEYS[2]  worker      HASH  seq: the number of the last call that was applied
-- KEYS[3]  deaths      HASH  SHA-1 of a message -> deaths, and what is known of single calls of it
-- ARGV[1]  seq      the number of this call: one more than the last that was applied
-- ARGV[2]  wire id  of the slot
--
-- Returns 1, or 0 when the slot owned nothing any more: then it is not to be run.
-- Errors  STALE  another call was to come before this one, this one comes too late, or which one came
--                last is not known and this is not the first; nothing was done.

--! include stale
--! include deaths

local seq = tonumber(ARGV[1])
local refused = out_of_order(KEYS[2], seq)
if refused then
  return refused
end
local suspects = redis.call('HLEN', KEYS[3])

local message = redis.call('HGET', KEYS[1], ARGV[2])
local digest = message and suspects > 0 and redis.sha1hex(message)
local known = digest and redis.call('HGET', KEYS[3], digest) or ''
local before, after = string.match(known, '^(%d+ %d+ )(.*)$')
redis.call('HDEL', KEYS[1], ' ') -- nobody's field: the first write needs no memory
if before then
  local slot, own, deaths = slot_of(ARGV[2]), nil, nil
  if string.sub(after, 1, 1) == '=' then
    own, after = string.match(after, '^=([^ ]*) ?(.*)$')
  end
  own, deaths = without_slot(own or '', slot)
  if deaths ~= '0' then -- another of these calls, when a worker of another kind took that one out of the queue
    for _, id in ipairs(redis.call('HKEYS', KEYS[1])) do
      local is_ours = string.match(id, ':' .. string.rep('[a-z2-7]', 16) .. ':%d+$')
      if not is_ours and redis.call('HGET', KEYS[1], id) == message then
        deaths = '0'
      end
    end
  end
  redis.call('HSET', KEYS[3], digest, before .. '=' .. own .. ';' .. slot .. '!' .. deaths .. ' ' .. after)
end
redis.call('HSET', KEYS[2], 'seq', seq)
return message and 1 or 0
