-- paused: whether a queue is paused.

-- Returns the value of the pause key, which exists; false if the key belongs to another program; and an error for the
-- caller.
local function find_pause(key)
  local text = redis.pcall('GET', key)
  if type(text) == 'table' then
    return false, not string.find(text.err, 'WRONGTYPE', 1, true) and text
  end
  return text and string.find(text, '^%d+ ') and text, false
end
