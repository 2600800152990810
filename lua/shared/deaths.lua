-- deaths: what is known of messages that died with their workers, by the SHA-1 of their bytes:
--
--   deaths, a space, when the last was counted (ms), a space, `=`, calls, a space, processes
--
-- `calls` (with its `=` left out where nothing is known of single calls) begins with the own deaths of alike calls that
-- wait, in the order of the queue: `2,0`. Behind them stand those that slots own: `;worker:slot=2`, and `!` instead of
-- `=` once the call runs, alone.

-- Whether a field is one of these, and not another program's.
local function is_digest(field)
  return #field == 40 and string.match(field, '^%x+$') ~= nil
end

-- Whether two processes died of a message: then it runs alone, so that the next death is its own.
local function is_suspect(known)
  return known and tonumber(string.match(known, '^%d+') or 0) >= 2
end

-- Gives the name of a slot in `calls`.
local function slot_of(wire_id)
  return string.match(wire_id, ':([a-z2-7]+:%d+)$')
end

-- Takes the call that a slot owns out of `calls`. Gives the rest, the own deaths of that call, and whether it ran.
local function without_slot(calls, slot)
  local deaths, ran = '0', false
  local rest = string.gsub(calls, ';' .. slot .. '([=!])(%d+)', function(how, count)
    deaths, ran = count, how == '!'
    return ''
  end)
  return rest, deaths, ran
end
