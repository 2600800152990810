-- suspects: claim a message that must run alone. Include it after `deaths`.

-- Moves the data about the first of several equal waiting calls to the slot that has claimed it. The slot has lost
-- any message that it owned before.
local function move_own_deaths(key, digest, known, wire_id)
  local head, calls, tail = string.match(known, '^(%d+ %d+ =)([^ ]*)(.*)$')
  if not head then
    return
  end
  local slot = slot_of(wire_id)
  calls = without_slot(calls, slot)
  local first, others = string.match(calls, '^(%d+),?(.*)$')
  if first then
    calls = others .. ';' .. slot .. '=' .. first
  end
  redis.pcall('HSET', key, digest, head .. calls .. tail)
end
