"""The process of one arm: a line of JSON in, a line of JSON out, standing still in between."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from agentrt.lab.arms.process_group import Keeper
from agentrt.lab.errors import BenchFailed

_QUIT_S = 10.0
_TAIL_BYTES = 1_500


class ArmChild:
    """A process that answers each line with one line.

    While it is not asked it is stopped by a signal, and so are the processes that it has started:
    threads that spin, caches that are tidied and pages that are swept would otherwise be measured
    with the arm whose turn it is.

    Args:
        name: Of the arm, for messages.
        command: What to run.
        environment: Of the process.
        patience_s: How long an answer may take.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        patience_s: float = 900.0,
    ) -> None:
        self._name = name
        self._patience_s = patience_s
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=dict(environment),
            text=True,
            start_new_session=True,  # a signal reaches what it has started as well
        )
        self._keeper = Keeper(self._process.pid)
        self._answers: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, name=f"arm {name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def ask(
        self, question: Mapping[str, Any], *, patience_s: float | None = None
    ) -> dict[str, Any]:
        """The answer; the process runs for as long as it takes.

        Args:
            question: A line for it.
            patience_s: For this answer; None waits as long as for any.

        Raises:
            BenchFailed: It ended, or took too long.
        """
        assert self._process.stdin is not None
        patience_s = self._patience_s if patience_s is None else patience_s
        self._signal(signal.SIGCONT)
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            answer = self._answers.get(timeout=patience_s)
        except (BrokenPipeError, ValueError):  # it is gone, or was closed
            answer = ""
        except queue.Empty:
            self.close(at_once=True)
            raise BenchFailed(
                f"{self._name} gave no answer within {patience_s:.0f} s",
                hint="Measure fewer tokens, or leave this arm out",
            ) from None
        if not answer:
            raise BenchFailed(f"{self._name} ended with {self._process.wait()}: {self._tail()}")
        self._signal(signal.SIGSTOP)
        found: dict[str, Any] = json.loads(answer)
        return found

    def close(self, *, at_once: bool = False) -> None:
        """End it. Idempotent."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        if self._process.poll() is None:
            self._signal(signal.SIGCONT)
            if at_once:
                self._signal(signal.SIGKILL)
            try:
                self._process.wait(_QUIT_S)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self._process.wait()
        self._keeper.close()
        self._reader.join(_QUIT_S)
        self._stderr.close()

    def _read(self) -> None:
        """Answers begin with a brace; whatever else is printed is not one."""
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.startswith("{"):
                    self._answers.put(line)
        self._answers.put("")

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def _tail(self) -> str:
        if self._stderr.closed:
            return "it was closed"
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _TAIL_BYTES))
        lines = self._stderr.read().decode("utf-8", "replace").splitlines()
        return " | ".join(line.strip() for line in lines[-4:] if line.strip())
