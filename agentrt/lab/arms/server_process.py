"""A server that a peer's clients speak to: started on a free port, stopped still, ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentrt.lab.arms.process_group import Keeper
from agentrt.lab.errors import BenchFailed

Json = dict[str, Any]
_LOAD_S = 300.0
_ANSWER_S = 120.0
_QUIT_S = 20.0
_LOOK_S = 0.05
_TAIL_BYTES = 1_500
# Nothing stands between us and a server on this machine.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """How a server is started, and how clients are to ask it.

    Attributes:
        kind: `llama-server`, `transformers` or `ours`.
        variant: What tells it from other plans of that kind.
        command: Of its process; `{port}` stands for the port.
        model: What requests call its model.
        body: Fields that every request carries, so that lengths are forced and prompts kept.
        streams_what_may_end: It notices a client that leaves by a broken stream alone.
        env: Added to its environment.
        about: More to be known of it.
    """

    kind: str
    variant: str
    command: tuple[str, ...]
    model: str
    body: Mapping[str, Any]
    streams_what_may_end: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For messages and tables."""
        return f"{self.kind} {self.variant}".strip()

    @property
    def client_settings(self) -> Json:
        """What a plain client is opened with, beside the address."""
        return {"body": dict(self.body), "streams_what_may_end": self.streams_what_may_end}


class ServerProcess:
    """A server that runs, and all that it has started.

    Args:
        plan: Of it. It is ready when this returns.

    Raises:
        BenchFailed: It does not start.
    """

    def __init__(self, plan: ServerPlan) -> None:
        self.plan = plan
        self._port = _free_port()
        command = [part.replace("{port}", str(self._port)) for part in plan.command]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            env={**os.environ, **plan.env},
            start_new_session=True,  # so that a signal reaches what it starts, too
        )
        self._keeper = Keeper(self._process.pid)
        self._halted = False
        try:
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """Its API."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def model(self) -> str:
        """What requests call its model."""
        return self.plan.model

    @property
    def pid(self) -> int:
        """Of its process, which leads a group of its own."""
        return self._process.pid

    @property
    def about(self) -> Mapping[str, Any]:
        """Its command, and what else tells it from others."""
        return {
            "kind": self.plan.kind,
            "variant": self.plan.variant,
            "command": list(self.plan.command),
            "env": dict(self.plan.env),
            "body": dict(self.plan.body),
            **self.plan.about,
        }

    def ask(self, messages: Sequence[Mapping[str, str]], tokens: int) -> Json:
        """One completion, asked for as clients ask; gives the whole answer.

        A server that stands still goes on for as long as it takes.

        Raises:
            BenchFailed: It was refused.
        """
        body = {"model": self.model, "messages": list(messages), "max_tokens": tokens}
        stood_still = self._halted
        self.resume()
        try:
            return self._post("/v1/chat/completions", {**body, **self.plan.body})
        finally:
            if stood_still:
                self.halt()

    def halt(self) -> None:
        """Stop it where it stands. Idempotent."""
        if not self._halted:
            self._signal(signal.SIGSTOP)
            self._halted = True

    def resume(self) -> None:
        """Let it go on. Idempotent."""
        if self._halted:
            self._signal(signal.SIGCONT)
            self._halted = False

    def close(self) -> None:
        """End it. Idempotent."""
        self.resume()
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_QUIT_S)
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._keeper.close()
        self._log.close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _wait_until_ready(self) -> None:
        """Until it answers that it is well, and then one question, which loads the rest of it."""
        ends_at = time.monotonic() + _LOAD_S
        while not self._is_well():
            if self._process.poll() is not None:
                code = self._process.returncode
                raise BenchFailed(f"{self.plan.name} ended with {code}: {self._tail()}")
            if time.monotonic() > ends_at:
                raise BenchFailed(f"{self.plan.name} is not ready: {self._tail()}")
            time.sleep(_LOOK_S)
        self.ask([{"role": "user", "content": "a"}], 1)

    def _is_well(self) -> bool:
        try:
            with _OPENER.open(f"http://127.0.0.1:{self._port}/health", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def _post(self, path: str, body: Json) -> Json:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with _OPENER.open(request, timeout=_ANSWER_S) as response:
                found: Json = json.loads(response.read())
                return found
        except urllib.error.HTTPError as error:
            said = error.read()[:300].decode("utf-8", "replace")
            raise BenchFailed(f"{self.plan.name} answered {error.code}: {said}") from None
        except OSError as error:
            raise BenchFailed(f"{self.plan.name}: {error}: {self._tail()}") from None

    def _tail(self) -> str:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _TAIL_BYTES))
        lines = self._log.read().decode("utf-8", "replace").splitlines()
        return " | ".join(line.strip() for line in lines[-4:] if line.strip())


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
