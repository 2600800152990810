"""The original queue, and a way to enqueue many tasks at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Union

import redis
from delayed.queue import Queue as OriginalQueue
from delayed.task import GoTask, PyTask

from .errors import EnqueueError, InvalidTaskError
from .task import RustTask

__all__ = ["Queue"]

MAX_CHUNK = 100_000
"""Redis runs nothing else while it pushes a chunk."""

# Pushes messages, and as many notifications, or nothing at all: what was pushed before an error
# (a key of another type, a missing permission) is taken off again before anybody can see it.
# KEYS: the queue, its notifications
# ARGV: the messages
# Returns: how many messages were pushed; or the error of the push that failed
_ENQUEUE_MANY = """
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

Task = Union[GoTask, PyTask, RustTask]


class Queue(OriginalQueue):
    """The original `delayed.queue.Queue`, which can also enqueue many tasks at once."""

    if TYPE_CHECKING:  # the original's own method, whose annotation knows no RustTask

        def enqueue(self, task: Task, release: bool = False) -> None:
            """Enqueue one task."""

    def enqueue_many(self, tasks: Iterable[Task], chunk: int = 1000) -> int:
        """Enqueue all `tasks`, in their order, a chunk at a time, and return how many they were.

        Every task is serialised before anything is sent, so that a bad one leaves the queue as it
        was; all messages are therefore held in memory at once. Each chunk, its notifications
        included, is one atomic step in Redis: it is applied whole or not at all. It is sent once,
        also where the connection is set to repeat failed commands: that could enqueue it twice.

        Args:
            tasks: `RustTask`, `PyTask` and `GoTask` in any mixture; a generator will do.
            chunk: How many tasks go in one step, at most 100,000.

        Raises:
            InvalidTaskError: When a task cannot be sent; nothing was sent.
            EnqueueError: When Redis failed; it says what is on the queue for certain.
            ValueError: When `chunk` is no whole number from 1 to 100,000; nothing was sent.
        """
        if isinstance(chunk, bool) or not isinstance(chunk, int) or not 1 <= chunk <= MAX_CHUNK:
            raise ValueError(f"chunk is {chunk!r}; give a whole number from 1 to {MAX_CHUNK}")
        messages = [_message(task, at) for at, task in enumerate(tasks)]
        for first in range(0, len(messages), chunk):
            self._push(messages[first : first + chunk], applied=first, total=len(messages))
        return len(messages)

    def _push(self, messages: Sequence[bytes], applied: int, total: int) -> None:
        pool = self._conn.connection_pool
        try:
            connection: Any = pool.get_connection()
        except redis.RedisError as error:
            raise EnqueueError(applied, 0, total, str(error)) from error
        try:
            # Not `self._conn.eval`: that sends again, unasked, when an answer is lost.
            connection.send_command("EVAL", _ENQUEUE_MANY, 2, self._name, self._noti_key, *messages)
            connection.read_response()
        except (redis.ResponseError, redis.BusyLoadingError) as error:
            raise EnqueueError(applied, 0, total, str(error)) from error
        except (redis.RedisError, OSError) as error:
            connection.disconnect()
            raise EnqueueError(applied, len(messages), total, str(error)) from error
        except BaseException:
            connection.disconnect()
            raise
        finally:
            pool.release(connection)


def _message(task: Any, at: int) -> bytes:
    if not isinstance(task, (GoTask, PyTask, RustTask)):
        raise InvalidTaskError(
            f"task {at} is a {type(task).__qualname__}; give a RustTask, a PyTask or a GoTask"
        )
    try:
        message = task.serialize()
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidTaskError(
            f"task {at} ({task._func_path!r}) cannot be serialised: {error}"
        ) from error
    if not message:
        raise InvalidTaskError(f"task {at} ({task._func_path!r}) has no serialised form")
    return message
