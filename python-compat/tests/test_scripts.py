"""Are the scripts of this package those of the Rust library?"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

LUA = Path(__file__).parents[2] / "lua"


SCRIPTS = ["cancel", "close", "define", "fill", "kill", "schedule", "submit", "unpark", "wake"]


@pytest.mark.parametrize("name", [f"{name}.lua" for name in SCRIPTS])
def test_a_script_is_that_of_the_rust_library(name: str) -> None:
    ours = (files("delayed_compat") / "lua" / name).read_text(encoding="utf-8")
    assert ours == spliced(name), (
        f"copy lua/{name} to src/delayed_compat/lua, with what it includes"
    )


def spliced(name: str) -> str:
    """Return a script with the blocks that it includes, and with its comments."""

    def shared(match: re.Match[str]) -> str:
        return (LUA / "shared" / f"{match[1]}.lua").read_text(encoding="utf-8")

    return re.sub(
        r"^--! include (\w+)\n",
        shared,
        (LUA / name).read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
