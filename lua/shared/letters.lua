-- letters: the stream of dead letters, which may belong to another program.

-- Returns the number of dead letters, or false if the key holds another type or begins with something else; and an
-- error for the caller.
local function count_letters(key)
  local count = redis.pcall('XLEN', key)
  if type(count) ~= 'number' then
    return false, not string.find(count.err, 'WRONGTYPE', 1, true) and count
  end
  local oldest = redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
  return (not oldest or oldest[2][1] == 'message') and count, false
end
