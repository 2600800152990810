-- marks: the marks of calls that were cancelled while they waited.

-- Returns an error for the caller before anything is claimed, because a user without the permission to read the marks
-- would run cancelled calls. False if they can be read, or the key belongs to another program.
local function marks_denied(key)
  local score = redis.pcall('ZSCORE', key, ' ')
  return type(score) == 'table' and not string.find(score.err, 'WRONGTYPE', 1, true) and score
end
