-- revive: move dead letters back to the tail of the queue.
--
-- KEYS[1]  queue          LIST    waiting messages, oldest first
-- KEYS[2]  notifications  LIST    one token for each waiting message
-- KEYS[3]  dead           STREAM  dead letters, oldest first
-- ARGV[…]  pairs: the id of a dead letter, and its message with the attempts forgotten, or an empty string where that is
--          the message as it stands there; at most 500 pairs
--
-- A call stays dead if another call holds its lock by now; otherwise it takes its lock again. The keys of
-- records and locks begin with the queue's name.
--
-- Returns an array: the number of messages that were put back, and the ids of the calls that stay, each with that of the call
-- that holds its lock; the others were gone already.

--! include tracked
--! include record

redis.call('LLEN', KEYS[1])
redis.call('LLEN', KEYS[2])
redis.call('XDEL', KEYS[3], '0-0') -- nobody's letter: the first write needs no memory, and the last one is allowed
local count, refused = 0, {}

-- Returns the call that holds the lock of another one, unless that call has ended.
local function holder_of(options)
  local lock = options and options.u
  local holder = lock and string.sub(lock, 1, 1) ~= 'p' and redis.pcall('GET', key_of_lock(KEYS[1], lock))
  if type(holder) ~= 'string' or holder == options.i then
    return nil
  end
  local state = redis.pcall('HGET', record_of(KEYS[1], holder), 'state')
  return type(state) == 'string' and not ENDED[state] and holder
end

for i = 1, #ARGV, 2 do
  local letter, message = redis.call('XRANGE', KEYS[3], ARGV[i], ARGV[i])[1], ARGV[i + 1]
  if letter then
    local fields = message == '' and letter[2] or {}
    for field = 1, #fields, 2 do
      message = fields[field] == 'message' and fields[field + 1] or message
    end
    local options = options_of(message)
    local holder = holder_of(options)
    if holder then
      refused[#refused + 1], refused[#refused + 2] = options.i, holder
    else
      redis.call('RPUSH', KEYS[1], message)
      redis.call('RPUSH', KEYS[2], '1')
      redis.call('XDEL', KEYS[3], ARGV[i])
      count = count + 1
      if options then
        redis.pcall('HDEL', record_of(KEYS[1], options.i), 'ended', 'reason', 'error', 'letter', 'errors', 'progress',
          'text')
        note_state(KEYS[1], options.i, 'waiting')
        if options.u and string.sub(options.u, 1, 1) ~= 'p' then
          redis.pcall('SET', key_of_lock(KEYS[1], options.u), options.i, 'PX', LOCK_LIFE)
        end
      end
    end
  end
end
return { count, refused }
