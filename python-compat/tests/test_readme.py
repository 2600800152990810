"""Does what the README shows run?"""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis

README = Path(__file__).parents[1] / "README.md"


def test_the_programs_of_the_readme_run(
    conn: redis.Redis, redis_socket: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 12
    socket = str(redis_socket)
    with ExitStack() as clients:

        def connect() -> redis.Redis:
            made = redis.Redis(unix_socket_path=socket)
            clients.callback(made.close)
            return made

        shared: dict[str, Any] = {"__name__": "readme", "connect": connect}
        for block in blocks:
            here = block.replace("redis.Redis()", "connect()")
            here = here.replace("Redis()", f"Redis(unix_socket_path={socket!r})")
            exec(compile(here, str(README), "exec"), shared)
    # add, send, charge, index; flow, sync; two full batches; a bulk; two of decorated functions;
    # another bulk, charge
    assert conn.llen("mail") == conn.llen("mail_noti") == 4 + 2 + 2 + 2500 + 2 + 10 + 1
    assert conn.llen("mail:g:my_crate::tasks::index_all") == 1 + 50
    assert conn.hlen("mail_later") == 2
    first, *others = capsys.readouterr().out.splitlines()
    assert first.endswith(" scheduled")
    held = "Held(state=<CallState.WAITING: 'waiting'>)"
    assert others == ["waiting", "True", f"False {held} True", "waiting", "waiting"]
    assert conn.hget("{delayed:github}:policy", "concurrency") == b"4"
