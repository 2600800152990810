-- paused: whether a queue is paused.

-- Gives what stands in the key of the pause, which is there; false when the key is another program's; and an error that is to
-- be given to the caller.
local function find_pause(key)
  local text = redis.pcall('GET', key)
  if type(text) == 'table' then
    return false, not string.find(text.err, 'WRONGTYPE', 1, true) and text
  end
  return text and string.find(text, '^%d+ ') and text, false
end
