-- tracked: the options of a message that its record and its lock need. Only this library's form has them, in the map
-- at its end: `i` is the id (16 bytes), `m` of which flow it is a step, `s` for how many milliseconds the record is kept,
-- `u` the lock: its mode and its digest (17 bytes).

local SIZES = { -- bytes of MessagePack behind a head, or of the length behind it (negative)
  [0xc4] = -1, [0xc5] = -2, [0xc6] = -4, [0xc7] = -1, [0xc8] = -2, [0xc9] = -4, [0xca] = 4, [0xcb] = 8, [0xcc] = 1,
  [0xcd] = 2, [0xce] = 4, [0xcf] = 8, [0xd0] = 1, [0xd1] = 2, [0xd2] = 4, [0xd3] = 8, [0xd4] = 2, [0xd5] = 3, [0xd6] = 5,
  [0xd7] = 9, [0xd8] = 17, [0xd9] = -1, [0xda] = -2, [0xdb] = -4, [0xdc] = -2, [0xdd] = -4, [0xde] = -2, [0xdf] = -4,
}

-- Returns where the value that begins at `at` ends, and where its own bytes begin.
local function behind(bytes, at)
  local left, content = 1, nil
  while left > 0 do
    local head = string.byte(bytes, at)
    if not head then
      return #bytes + 1, #bytes + 1
    end
    left, at = left - 1, at + 1
    local size = SIZES[head]
    if size and size < 0 then
      local length = 0
      for i = at, at - size - 1 do
        length = length * 256 + (string.byte(bytes, i) or 0)
      end
      at, size = at - size, length
      if head == 0xc7 or head == 0xc8 or head == 0xc9 then -- an extension has a type
        size = size + 1
      elseif head == 0xdc or head == 0xdd then
        left, size = left + length, 0
      elseif head == 0xde or head == 0xdf then
        left, size = left + 2 * length, 0
      end
    elseif not size and head >= 0x80 and head <= 0xbf then
      size = 0
      if head <= 0x8f then
        left = left + 2 * (head - 0x80)
      elseif head <= 0x9f then
        left = left + head - 0x90
      else
        size = head - 0xa0
      end
    end
    content = content or at
    at = at + (size or 0)
  end
  return at, content
end

-- Returns the options, or nil if the message has no id.
local function options_of(message)
  if string.byte(message, 1) ~= 0x93 then
    return nil
  end
  local at = behind(message, behind(message, 2))
  local head = string.byte(message, at) or 0
  local count = head >= 0x80 and head <= 0x8f and head - 0x80 or 0
  local options, from, key, value = {}, nil, nil, nil
  at = at + 1
  for _ = 1, count do
    value, from = behind(message, at)
    key, at = string.sub(message, from, value - 1), value
    at, from = behind(message, value)
    if (key == 'i' and at - from == 16) or (key == 'u' and at - from == 17) or (key == 'm' and at - from > 24) then
      options[key] = string.sub(message, from, at - 1)
    elseif key == 's' then
      options.s = string.byte(message, value) % 128 * (value + 1 == at and 1 or 0)
      for i = value + 1, at - 1 do
        options.s = options.s * 256 + string.byte(message, i)
      end
    end
  end
  return options.i and options
end
