-- suspects: claim a message that is to run alone. Stands behind `deaths`.

-- Moves what is known of the first of alike calls that wait to the slot that has claimed it. What the slot owned before
-- was taken away from it.
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
