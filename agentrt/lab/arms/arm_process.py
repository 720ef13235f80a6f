"""An arm of a bench as a process that answers lines of JSON.

Each line of its standard input is a question, the next line of its output that begins with a brace
is the answer:

    {"do": "open", "settings": {...}}   -> whatever describes the opened arm
    {"do": NAME, ...arguments}          -> the result of that method
    anything that fails                 -> {"error": "...", "hint": "..."}

Our own arms answer by `answering`, and peers, which cannot import it, by `peers/answering.py`.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Any, Protocol

from agentrt.base.record import record
from agentrt.lab.arms.process_group import ProcessGroup
from agentrt.lab.errors import BenchFailed

OURS = "agentrt"
_QUIT_S = 10.0
_OPEN_S = 900.0


@record
class Arm:
    """One way of computing the work of a bench.

    Attributes:
        engine: Engine, library, or client and server that computes.
        variant: Difference from other arms of that engine.
        command: Command line of its process.
        settings: Settings that its process is opened with.
        env: Variables added to its environment.
    """

    engine: str
    variant: str
    command: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name in tables and messages."""
        return f"{self.engine} {self.variant}".strip()

    @property
    def key(self) -> str:
        """Equal for arms that one process can serve."""
        return json.dumps([self.name, dict(self.settings)], default=str, sort_keys=True)


class ArmServer(Protocol):
    """The server of an arm: one process, or replicas."""

    @property
    def url(self) -> str:
        """Address of its API; several are separated by commas."""
        ...

    @property
    def about(self) -> dict[str, Any]:
        """Facts for the result."""
        ...

    @property
    def groups(self) -> tuple[int, ...]:
        """Ids of its groups of processes."""
        ...

    def running(self) -> AbstractContextManager[None]:
        """Let it run for the length of a block."""
        ...

    def counts(self) -> dict[str, int]:
        """Counts since its start, by our names; {} if it counts nothing."""
        ...


class ArmProcess:
    """The opened process of an arm, halted unless it answers.

    Args:
        arm: The arm.
        server: Server to which the arm sends requests; it runs only while the arm answers.
        patience_s: Longest time of an answer, but for the first.

    Attributes:
        arm: The arm.
        about: Description of the opened arm, and of its server.

    Raises:
        BenchFailed: The arm cannot be opened.
    """

    def __init__(
        self, arm: Arm, *, server: ArmServer | None = None, patience_s: float = _OPEN_S
    ) -> None:
        self.arm = arm
        self._server = server
        self._patience_s = _OPEN_S
        self._failure: BenchFailed | None = None
        self._group = ProcessGroup(arm.command, arm.env, talks=True)
        self._answers: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, name=f"arm {arm.name}", daemon=True)
        self._reader.start()
        settings = {**arm.settings, **({"url": server.url} if server is not None else {})}
        try:
            self.about = self.ask("open", settings=settings)
        except BaseException:
            self.close()
            raise
        if server is not None:
            self.about["server"] = server.about
        self._patience_s = patience_s

    def give_up(self, failure: BenchFailed) -> None:
        """Let the call under way fail, from another thread; the process is killed."""
        self._failure = failure
        self._group.kill()

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._group.process.pid

    @property
    def groups(self) -> tuple[int, ...]:
        """Ids of the groups of processes of the arm and of its server."""
        return (self.pid, *(() if self._server is None else self._server.groups))

    def server_counts(self) -> dict[str, int]:
        """Counts of the arm's server since its start; {} if it counts nothing."""
        return {} if self._server is None else self._server.counts()

    @property
    def is_running(self) -> bool:
        """False once the process has ended, or was killed because an answer took too long."""
        return self._group.is_running

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Call a method of the arm; the process runs until it has answered.

        Raises:
            BenchFailed: The method failed, the process ended, or the answer took too long.
        """
        answer = self._answer(json.dumps({"do": do, **arguments}))
        if answer.get("error"):
            raise BenchFailed(
                f"{self.arm.name} failed: {answer['error']}", hint=answer.get("hint") or ""
            )
        return answer

    def close(self, patience_s: float = _QUIT_S) -> None:
        """End the process. Idempotent."""
        assert self._group.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._group.process.stdin.close()
        self._group.close(patience_s)
        self._reader.join(_QUIT_S)

    def _answer(self, question: str) -> dict[str, Any]:
        stdin = self._group.process.stdin
        assert stdin is not None
        with contextlib.ExitStack() as stack:
            if self._server is not None:
                stack.enter_context(self._server.running())
            self._group.resume()
            try:
                stdin.write(question + "\n")
                stdin.flush()
                line = self._answers.get(timeout=self._patience_s)
            except (BrokenPipeError, ValueError):  # the process has ended, or was closed
                line = ""
            except queue.Empty:
                self.close(patience_s=0)
                raise BenchFailed(
                    f"{self.arm.name} gave no answer within {self._patience_s:.0f} s",
                    hint="Measure fewer tokens, or leave this arm out",
                ) from None
            if self._failure is not None:
                raise self._failure
            if not line:
                code = self._group.process.wait()
                raise BenchFailed(f"{self.arm.name} ended with {code}: {self._group.last_words()}")
            self._group.halt()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _read(self) -> None:
        """Collect answers; a line that does not begin with a brace is other output."""
        assert self._group.process.stdout is not None
        with self._group.process.stdout as lines:
            for line in lines:
                if line.startswith("{"):
                    self._answers.put(line)
        self._answers.put("")
