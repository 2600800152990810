"""Sends commands once, each on a connection of the client's pool, and listens to a channel.

Not by the methods of the client: those send again, unasked, when an answer is lost; and they decode
what is not text, when the client was told to decode.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeVar, Union

import redis

if TYPE_CHECKING:
    import redis.asyncio

__all__ = ["BROKEN", "Argument", "AsyncLink", "Link", "Plan", "is_refusal"]

T = TypeVar("T")
Argument = Union[bytes, str, int]
Plan = Generator[tuple[Argument, ...], Any, T]
"""Yields commands, is sent their replies, and returns what became of it: without any I/O."""

BROKEN = (redis.ConnectionError, redis.TimeoutError)
"""What a connection that breaks raises."""

LISTEN = 600.0
"""Seconds after which somebody who listens looks again, for a connection that is gone unnoticed."""


class Link:
    """The connections of a `redis.Redis`."""

    def __init__(self, conn: redis.Redis) -> None:
        self._pool: Any = conn.connection_pool

    def connect(self) -> Any:
        """Return a connection, for `ask`."""
        return self._pool.get_connection()

    def once(self, *command: Argument) -> Any:
        """Send a command, and return the reply."""
        return self.ask(self.connect(), *command)

    def run(self, plan: Plan[T]) -> T:
        """Send what `plan` yields, and return what it returns."""
        reply = None
        while True:
            try:
                command = plan.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            reply = self.once(*command)

    def ask(self, connection: Any, *command: Argument) -> Any:
        """Send a command once, and give the connection back."""
        try:
            connection.send_command(*command)
            return connection.read_response(disable_decoding=True)
        except BaseException as error:
            if not (isinstance(error, Exception) and is_refusal(error)):
                connection.disconnect()
            raise
        finally:
            self._pool.release(connection)

    def subscribe(self, connection: Any, channel: str) -> None:
        """Begin to listen to a channel."""
        connection.send_command("SUBSCRIBE", channel)
        connection.read_response(disable_decoding=True, push_request=True)

    def hear(self, connection: Any, until: float) -> bytes | None:
        """Return what is said on the channel; None: nothing until then, or the connection broke."""
        until = min(until, time.monotonic() + LISTEN)
        try:
            while connection.can_read(timeout=max(until - time.monotonic(), 0)):
                said = _message(connection.read_response(disable_decoding=True, push_request=True))
                if said is not None:
                    return said
        except BROKEN:
            pass
        return None

    def heard(self, connection: Any) -> bytes | None:
        """Return what was said on the channel before now; None: as `hear`."""
        try:
            connection.send_command("PING", check_health=False)
            while True:
                pushed = connection.read_response(disable_decoding=True, push_request=True)
                said = _message(pushed)
                if said is not None or _is_pong(pushed):
                    return said
        except BROKEN:
            return None

    def close(self, connection: Any) -> None:
        """Close a connection that listened, and give it back."""
        connection.disconnect()
        self._pool.release(connection)


class AsyncLink:
    """The connections of a `redis.asyncio.Redis`."""

    def __init__(self, conn: redis.asyncio.Redis) -> None:
        self._pool: Any = conn.connection_pool

    async def connect(self) -> Any:
        """Return a connection, for `ask`."""
        return await self._pool.get_connection()

    async def once(self, *command: Argument) -> Any:
        """Send a command, and return the reply."""
        return await self.ask(await self.connect(), *command)

    async def run(self, plan: Plan[T]) -> T:
        """Send what `plan` yields, and return what it returns."""
        reply = None
        while True:
            try:
                command = plan.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            reply = await self.once(*command)

    async def ask(self, connection: Any, *command: Argument) -> Any:
        """Send a command once, and give the connection back."""
        try:
            await connection.send_command(*command)
            return await connection.read_response(disable_decoding=True)
        except BaseException as error:
            if not (isinstance(error, Exception) and is_refusal(error)):
                await connection.disconnect(nowait=True)
            raise
        finally:
            await self._pool.release(connection)

    async def subscribe(self, connection: Any, channel: str) -> None:
        """Begin to listen to a channel."""
        await connection.send_command("SUBSCRIBE", channel)
        await connection.read_response(disable_decoding=True, push_request=True)

    async def hear(self, connection: Any, until: float) -> bytes | None:
        """Return what is said on the channel; None: nothing until then, or the connection broke."""
        until = min(until, time.monotonic() + LISTEN)
        try:
            while (left := until - time.monotonic()) > 0:
                pushed = await connection.read_response(
                    disable_decoding=True, timeout=left, push_request=True
                )
                said = _message(pushed)
                if said is not None:
                    return said
        except BROKEN:
            pass
        return None

    async def heard(self, connection: Any) -> bytes | None:
        """Return what was said on the channel before now; None: as `hear`."""
        try:
            await connection.send_command("PING", check_health=False)
            while True:
                pushed = await connection.read_response(disable_decoding=True, push_request=True)
                said = _message(pushed)
                if said is not None or _is_pong(pushed):
                    return said
        except BROKEN:
            return None

    async def close(self, connection: Any) -> None:
        """Close a connection that listened, and give it back."""
        await connection.disconnect(nowait=True)
        await self._pool.release(connection)


def is_refusal(error: Exception) -> bool:
    """Whether Redis said no, so that certainly nothing was applied."""
    return isinstance(error, (redis.ResponseError, redis.BusyLoadingError))


def _message(pushed: Any) -> bytes | None:
    """Return the payload of what a connection received, if it is what somebody published."""
    if isinstance(pushed, list) and len(pushed) == 3 and pushed[0] == b"message":
        payload: bytes = pushed[2]
        return payload
    return None


def _is_pong(pushed: Any) -> bool:
    """Whether it is the reply to a PING, which is an array on a connection that listens (RESP2)."""
    return pushed == b"PONG" or (isinstance(pushed, list) and pushed[:1] == [b"pong"])
