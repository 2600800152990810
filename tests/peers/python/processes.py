"""How does a test run a program of either language, and wait for what it says or does?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PATIENCE = 20.0
"""Seconds after which a condition that was not met fails the test."""


def wait_for(condition: Callable[[], object], what: Callable[[], str]) -> None:
    """Return as soon as `condition` holds; fail with the text of `what` when it never does."""
    deadline = time.monotonic() + PATIENCE
    tick = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, what()
        tick.wait(0.01)


def build_go(module: Path, program: Path) -> Path:
    """Build the Go module, and return the program; fail when there is no Go."""
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=module, check=True)
    return program


class Process:
    """A running program, whose output is gathered in files."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.out = folder / "out"
        self.err = folder / "err"
        with self.out.open("w") as out, self.err.open("w") as err:
            self.child = subprocess.Popen(command, stdout=out, stderr=err, env=environment)

    def wait_for(self, said: str, times: int = 1) -> None:
        """Wait until it has said so, on either output."""
        wait_for(
            lambda: (self.out.read_text() + self.err.read_text()).count(said) >= times, self.report
        )

    def ready(self) -> str:
        """Wait until it is online, and return its worker id."""
        wait_for(
            lambda: self.out.read_text().startswith("READY ") and "\n" in self.out.read_text(),
            self.report,
        )
        return self.out.read_text().split()[1]

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Ask it to end, and see that it ends well."""
        self.child.send_signal(number)
        assert self.child.wait(PATIENCE) == 0, self.report()

    def report(self) -> str:
        """Return all that it said."""
        return f"out:\n{self.out.read_text()}\nerr:\n{self.err.read_text()}"


class Programs:
    """The programs under test, on one Redis, with one file where the tasks leave their lines."""

    def __init__(self, url: str, go: Path, folder: Path, compat: Path) -> None:
        self.log = folder / "log"
        self._url, self._go, self._folder = url, go, folder
        self._environment = {**os.environ, "RECORD_FILE": str(self.log), "PYTHONPATH": str(compat)}
        self._running: list[Process] = []

    def command(self, language: str, name: str, *flags: str) -> list[str]:
        """Return the command line of a program on the queue `mail`."""
        if language == "go":
            return [str(self._go), name, "-redis", self._url, "-queue", "mail", *flags]
        script = str(HERE / f"{name}.py")
        return [sys.executable, script, "--redis", self._url, "--queue", "mail", *flags]

    def start(self, language: str, name: str, *flags: str) -> Process:
        """Start a worker or a sweeper."""
        if (language, name) == ("go", "work"):
            flags = ("-log", str(self.log), *flags)
        folder = self._folder / str(len(self._running))
        folder.mkdir()
        process = Process(self.command(language, name, *flags), folder, self._environment)
        self._running.append(process)
        return process

    def produce(self, language: str, *calls: dict[str, Any], flags: tuple[str, ...] = ()) -> str:
        """Enqueue calls, and return what the producer printed."""
        return subprocess.run(
            self.command(language, "produce", *flags),
            input="".join(json.dumps(call) + "\n" for call in calls),
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=PATIENCE,
        ).stdout

    def wait_for_lines(self, *lines: str) -> None:
        """Wait until the tasks have left these lines, in this order, and no others."""
        wanted = "".join(f"{line}\n" for line in lines)

        def left() -> str:
            return self.log.read_text() if self.log.exists() else ""

        def report() -> str:
            said = "\n".join(process.report() for process in self._running)
            return f"wanted:\n{wanted}\nleft:\n{left()}\n{said}"

        wait_for(lambda: left() == wanted, report)

    def kill_all(self) -> None:
        """End what a test left running."""
        for process in self._running:
            process.child.kill()
            process.child.wait()
