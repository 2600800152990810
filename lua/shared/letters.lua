-- letters: the stream of dead letters, which may be another program's.

-- Gives how many letters there are; false where the key holds another type, or begins with something else than a letter;
-- and an error that is to be given to the caller.
local function count_letters(key)
  local count = redis.pcall('XLEN', key)
  if type(count) ~= 'number' then
    return false, not string.find(count.err, 'WRONGTYPE', 1, true) and count
  end
  local oldest = redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
  return (not oldest or oldest[2][1] == 'message') and count, false
end
