-- deaths: the data about messages that died with their workers, by the SHA-1 of their bytes:
--
--   deaths, a space, when the last was counted (ms), a space, `=`, calls, a space, processes
--
-- `calls` (omitted with its `=` if nothing is known of single calls) begins with the own deaths of equal calls that
-- wait, in the order of the queue: `2,0`. Entries for calls that slots own follow: `;worker:slot=2`, with `!` instead
-- of `=` once the call runs alone.

-- Whether a field is such a digest, and not another program's.
local function is_digest(field)
  return #field == 40 and string.match(field, '^%x+$') ~= nil
end

-- Whether two processes died of a message: then it runs alone, so that it is to blame for the next death.
local function is_suspect(known)
  return known and tonumber(string.match(known, '^%d+') or 0) >= 2
end

-- Returns the name of a slot in `calls`.
local function slot_of(wire_id)
  return string.match(wire_id, ':([a-z2-7]+:%d+)$')
end

-- Removes the call that a slot owns from `calls`. Returns the rest, the own deaths of that call, and whether it ran.
local function without_slot(calls, slot)
  local deaths, ran = '0', false
  local rest = string.gsub(calls, ';' .. slot .. '([=!])(%d+)', function(how, count)
    deaths, ran = count, how == '!'
    return ''
  end)
  return rest, deaths, ran
end
