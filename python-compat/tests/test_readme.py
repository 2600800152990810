"""Does what the README shows run?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import redis

README = Path(__file__).parents[1] / "README.md"


def test_the_programs_of_the_readme_run(
    conn: redis.Redis, redis_socket: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 5
    shared: dict[str, Any] = {"__name__": "readme"}
    for block in blocks:
        here = block.replace("Redis()", f"Redis(unix_socket_path={str(redis_socket)!r})")
        exec(compile(here, str(README), "exec"), shared)
    # add, send, 2500 of a bulk, two of decorated functions, 10 of another bulk
    assert conn.llen("mail") == conn.llen("mail_noti") == 2 + 2500 + 2 + 10
    assert conn.hlen("mail_later") == 2
    assert capsys.readouterr().out.endswith(" True\n")
