-- start: record that tracked or unique calls have begun to run.
--
-- The worker does not wait for this. It has no effect on a message that the slot no longer owns, and never
-- changes how a call ended.
--
-- KEYS[1]  queue       LIST  waiting messages; the keys of records and locks begin with its name
-- KEYS[2]  processing  HASH  wire id -> the message that this slot owns
-- ARGV[…]  for each call, at most 100: the wire id of its slot, its id (16 bytes), its lock (mode and digest; empty: none)
--          and which attempt it is
--
-- Returns how many of them have begun.

--! include now
--! include record

local begun, now = 0, now_ms()
for i = 1, #ARGV, 4 do
  local wire_id, id, lock, attempt = unpack(ARGV, i, i + 3)
  local message = redis.call('HGET', KEYS[2], wire_id)
  local state = message and redis.pcall('HGET', record_of(KEYS[1], id), 'state')
  -- Not for the next message, which the slot has claimed since.
  if type(state) == 'string' and not ENDED[state] and string.find(message, id, 1, true) then
    begun = begun + 1
    note_state(KEYS[1], id, 'running', 'began', now, 'attempt', attempt, 'slot', wire_id)
    if lock ~= '' then
      local mode = string.sub(lock, 1, 1)
      if mode == 's' or mode == 'r' then
        unlock(KEYS[1], id, lock)
      elseif mode == 'd' or mode == 'o' then
        redis.pcall('PEXPIRE', key_of_lock(KEYS[1], lock), LOCK_LIFE)
      end
    end
  end
end
return begun
