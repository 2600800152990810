-- marks: the marks of calls that were cancelled while they waited.

-- Gives an error that is to be given to the caller, before anything is claimed: whoever may not read the marks would run those
-- calls. False where they can be read, or the key is another program's.
local function marks_denied(key)
  local score = redis.pcall('ZSCORE', key, ' ')
  return type(score) == 'table' and not string.find(score.err, 'WRONGTYPE', 1, true) and score
end
