"""A served process under observation: its canary, its memory, its files, and its end."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import httpx

from tests.fuzz.bodies import GOOD

HERE = Path(__file__).parent
LOGGED_FAULT = re.compile(r"Traceback|^error \w+:|panicked", re.MULTILINE)
PATIENCE_S = 60


@dataclass
class Canary:
    """Answers to a client in order.

    Attributes:
        took_s: Time that each answered request took.
        lost: Number of requests that were not answered.
    """

    took_s: list[float] = field(default_factory=list)
    lost: int = 0


@dataclass
class Served:
    """The server's process.

    Attributes:
        process: The process.
        log: Its standard error.
        port: Port that it listens at.
        engine_pid: The engine's process.
        leaked_pages: KV pages that nothing holds and nothing gets; known at the end.
    """

    process: subprocess.Popen[str]
    log: IO[str]
    port: int
    engine_pid: int
    leaked_pages: int | None = None

    def files(self) -> int:
        """Files and sockets that the server has open."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def rss_mb(self) -> tuple[float, float]:
        """Memory of the server and of its engine."""
        return resident_mb(self.process.pid), resident_mb(self.engine_pid)

    def health(self) -> dict[str, object]:
        url = f"http://127.0.0.1:{self.port}/health"
        answer: dict[str, object] = httpx.get(url, timeout=PATIENCE_S, trust_env=False).json()
        return answer

    def is_idle(self) -> bool:
        """Whether nothing is under way; each look takes a moment, and there is a last one."""
        return any(self.health() == {"status": "ok", "under_way": 0} for _ in range(3_000))

    def ask_last(self) -> tuple[bool, bool]:
        """Ask once more, in order: whether the same engine is there, and nothing is under way."""
        is_idle = self.is_idle()
        url = f"http://127.0.0.1:{self.port}/v1/chat/completions"
        answer = httpx.post(url, json=GOOD, timeout=PATIENCE_S, trust_env=False)
        assert answer.status_code == 200, answer.text
        is_same = self.process.poll() is None and Path(f"/proc/{self.engine_pid}").exists()
        return is_same, is_idle

    def faults(self) -> str:
        """The log, if a fault stands in it."""
        self.log.seek(0)
        text = self.log.read()
        return text[-4_000:] if LOGGED_FAULT.search(text) else ""

    def end(self) -> int:
        """End in order; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        if out.strip():
            self.leaked_pages = json.loads(out)["leaked_pages"]
        return self.process.returncode


def resident_mb(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text("utf-8"))
    return int(found[1]) / 1_024 if found else 0.0


@contextmanager
def served() -> Iterator[Served]:
    """A server of its own; it is killed if it has not ended in order."""
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            [sys.executable, str(HERE / "served.py")], stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            yield Served(process, log, httpx.URL(told["url"]).port or 0, told["engine_pid"])
        finally:
            process.kill()


@contextmanager
def canary(port: int, every_s: float) -> Iterator[Canary]:
    """A client in order, as long as the block lasts; its answers are known behind it."""
    command = [sys.executable, str(HERE / "canary.py"), str(port), str(every_s)]
    found = Canary()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield found
        out, _ = process.communicate(timeout=2 * PATIENCE_S)
    for line in out.splitlines():
        took_s, is_answered = line.split()
        if int(is_answered):
            found.took_s.append(float(took_s))
        else:
            found.lost += 1
