"""The Lua scripts that this package sends, each with its contract in its header."""

from __future__ import annotations

from importlib.resources import files

__all__ = [
    "CANCEL",
    "CLOSE",
    "DEFINE",
    "ENQUEUE_MANY",
    "FILL",
    "KILL",
    "SCHEDULE",
    "SET_LIMIT",
    "SUBMIT",
    "UNPARK",
    "WAKE",
]

_FOLDER = files(__package__) / "lua"

SCHEDULE = (_FOLDER / "schedule.lua").read_text(encoding="utf-8")
"""`lua/schedule.lua` of the Rust library, as it is."""

SUBMIT = (_FOLDER / "submit.lua").read_text(encoding="utf-8")
"""`lua/submit.lua` of the Rust library, as it is."""

FILL = (_FOLDER / "fill.lua").read_text(encoding="utf-8")
"""`lua/fill.lua` of the Rust library, as it is."""

KILL = (_FOLDER / "kill.lua").read_text(encoding="utf-8")
"""`lua/kill.lua` of the Rust library, as it is."""

CANCEL = (_FOLDER / "cancel.lua").read_text(encoding="utf-8")
"""`lua/cancel.lua` of the Rust library, as it is."""

DEFINE = (_FOLDER / "define.lua").read_text(encoding="utf-8")
"""`lua/define.lua` of the Rust library, as it is."""

CLOSE = (_FOLDER / "close.lua").read_text(encoding="utf-8")
"""`lua/close.lua` of the Rust library, as it is."""

WAKE = (_FOLDER / "wake.lua").read_text(encoding="utf-8")
"""`lua/wake.lua` of the Rust library, as it is."""

UNPARK = (_FOLDER / "unpark.lua").read_text(encoding="utf-8")
"""`lua/unpark.lua` of the Rust library, as it is."""

# Sets the policy of a limit.
# KEYS: the policy
# ARGV: its fields, each with its value
SET_LIMIT = """
redis.call('DEL', KEYS[1])
return redis.call('HSET', KEYS[1], unpack(ARGV))
"""

# Pushes messages, and as many notifications, or nothing at all: what was pushed before an error
# (a key of another type, a missing permission) is taken off again before anybody can see it.
# KEYS: the queue, its notifications
# ARGV: the messages
# Returns: how many messages were pushed; or the error of the push that failed
ENQUEUE_MANY = """
local SLICE = 1000 -- values for one RPUSH: unpack fails from 8000 on
local total = #ARGV

local function push(key, value_at)
    for first = 1, total, SLICE do
        local last = math.min(first + SLICE - 1, total)
        local values = {}
        for at = first, last do values[#values + 1] = value_at(at) end
        local reply = redis.pcall('RPUSH', key, unpack(values))
        if type(reply) == 'table' and reply.err then return first - 1, reply end
    end
    return total
end

local function take_back(key, count)
    if count > 0 then redis.call('LTRIM', key, 0, -(count + 1)) end
end

local pushed, failure = push(KEYS[1], function(at) return ARGV[at] end)
if failure then
    take_back(KEYS[1], pushed)
    return failure
end
local notified, refusal = push(KEYS[2], function() return '1' end)
if refusal then
    take_back(KEYS[2], notified)
    take_back(KEYS[1], pushed)
    return refusal
end
return pushed
"""
