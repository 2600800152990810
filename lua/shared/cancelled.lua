-- cancelled: calls that were cancelled while they waited. Stands behind `tracked`.

-- Gives the places, from 1 on, of those messages whose calls are marked.
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
