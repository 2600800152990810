-- stale: keep the calls of a worker in order.

-- Returns the error for call `seq` of a worker, or false if it is the next one; and the last call that was applied.
local function out_of_order(worker, seq)
  local last = redis.call('HGET', worker, 'seq')
  if tonumber(last or 0) == seq - 1 then
    return false, last
  end
  local known = last and (last .. ' was applied last') or 'none is known'
  return redis.error_reply('STALE this is not the next call of this worker: ' .. known), last
end
