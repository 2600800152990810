"""How does a test get a Redis of its own? It starts one, on a private socket."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 20


@contextmanager
def running_redis() -> Iterator[Path]:
    """Yield the socket of a fresh redis-server without a TCP port; fail when there is none."""
    program = shutil.which("redis-server")
    assert program, "redis-server is not installed, and these tests need it"
    folder = Path(tempfile.mkdtemp(prefix="delayed-"))
    socket = folder / "redis.sock"
    command = [program, "--port", "0", "--unixsocket", str(socket), "--dir", str(folder)]
    command += ["--save", "", "--appendonly", "no"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        _wait_until_ready(server)
        yield socket
    finally:
        server.kill()
        server.communicate()
        shutil.rmtree(folder)


def _wait_until_ready(server: subprocess.Popen[str]) -> None:
    deadline = threading.Timer(START_SECONDS, server.kill)
    deadline.start()
    try:
        seen = []
        assert server.stdout
        for line in server.stdout:
            seen.append(line)
            if "ready to accept connections" in line.lower():
                return
        raise AssertionError(f"redis-server did not start:\n{''.join(seen)}")
    finally:
        deadline.cancel()
