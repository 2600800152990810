-- batch: a filling batch, and the message that it becomes. Its list has the items, encoded, and before them when the first
-- one came, in milliseconds since 1970, and how many bytes they have. Its name is the path of its task, followed by a space
-- and its key if it has one.

local function batch_of(queue, name)
  return queue .. ':g:' .. name
end

-- Whether a list with this first element is a filling batch of this name, and not another program's.
local function is_batch(name, header)
  return string.find(name, '^[^ ]') and string.find(header, '^%d+ %d+$')
end

-- Returns the head of a MessagePack value of `length` bytes or elements: `fixed` and the length in one byte if there are at
-- most `few`, else `byte` and one byte of length, `short` and two, or the head behind `short` and four.
local function head(length, fixed, few, byte, short)
  if length <= few then
    return string.char(fixed + length)
  elseif byte and length < 256 then
    return string.char(byte, length)
  elseif length < 65536 then
    return struct.pack('>BI2', short, length)
  end
  return struct.pack('>BI4', short + 1, length)
end

-- Returns the message: a call of the task with the list of its `count` items, as Go makes it.
local function message_of(name, count, items)
  local path = string.match(name, '^[^ ]+')
  local payload = head(count, 0x90, 15, nil, 0xdc) .. items
  return '\146' .. head(#path, 0xa0, 31, 0xd9, 0xda) .. path .. head(#payload, 0, -1, 0xc4, 0xc5) .. payload
end
