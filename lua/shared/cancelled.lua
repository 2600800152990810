-- cancelled: calls that were cancelled while they waited. Include it after `tracked`.

-- Returns the positions, from 1, of the messages whose calls are marked.
local function marked_among(key, messages)
  local places = {}
  for place, message in ipairs(messages) do
    local options = options_of(message)
    if options and type(redis.pcall('ZSCORE', key, options.i)) == 'string' then
      places[#places + 1] = place
    end
  end
  return places
end
