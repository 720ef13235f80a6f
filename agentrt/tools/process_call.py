"""One call of a tool in a process of its own, from the side of the caller."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agentrt.base.errors import ToolFailed
from agentrt.base.trace_context import current_span
from agentrt.tools.process_form import KEPT_VARIABLES, JsonTypes, json_of
from agentrt.tools.spec import ToolSpec
from agentrt.tools.write_log import tool_call_key

POLL_S = 1.0
ESCAPED = 6
"""Bytes of JSON for one byte of text, at most."""


class ProcessCall:
    """One call; `run` blocks and belongs in a worker thread, `kill` may come from another."""

    def __init__(self, spec: ToolSpec, arguments: Mapping[str, Any], max_bytes: int) -> None:
        self._spec = spec
        self._arguments = arguments
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._killed = False
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> Any:
        """Start the process and give the result of the tool.

        Raises:
            ToolFailed: The tool raised, or its process ended before the tool did.
        """
        spec = self._spec
        types = JsonTypes.of(spec.fn, spec.name, spec.where)
        try:
            arguments = json_of(types.arguments, dict(self._arguments))
        except ValueError as error:
            raise self._failed(f"its arguments cannot be sent as JSON: {error}") from error
        ours, theirs = socket.socketpair()
        with ours:
            with theirs, self._lock:
                if self._killed:
                    raise self._failed("it was cancelled")
                process = self._process = self._started(theirs.fileno())
            with suppress(OSError):  # it has ended: the answer below says how
                ours.sendall(self._request() + arguments + b"\n")
            answer = self._answer(ours, process)
        code = process.wait()
        if len(answer) > ESCAPED * self._max_bytes:
            raise self._failed(f"its result has more than {self._max_bytes} bytes")
        if not answer.endswith(b"\n"):
            raise self._failed(_end(code))
        head, _, body = answer.partition(b"\n")
        failure = json.loads(head)
        if failure is None:
            return types.result.validate_json(body[:-1])
        raise self._failed(failure["message"], where=failure["where"])

    def kill(self) -> None:
        """End the process at once, with all that it started."""
        with self._lock:
            self._killed = True
            process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _started(self, descriptor: int) -> subprocess.Popen[bytes]:
        form = self._spec.process
        assert form is not None
        names = {*KEPT_VARIABLES, *form.env}
        env = {k: v for k, v in os.environ.items() if k in names or k.startswith("LC_")}
        span = current_span.get()
        if span is not None and (context := span.context) is not None:
            env |= {name.upper(): value for name, value in context.headers().items()}
        env["PYTHONPATH"] = os.pathsep.join(os.path.abspath(part) for part in sys.path)
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "agentrt.tools.process_child", str(descriptor)],
            stdin=subprocess.DEVNULL,
            stdout=sys.__stderr__.fileno() if sys.__stderr__ else subprocess.DEVNULL,
            env=env,
            pass_fds=(descriptor,),
            start_new_session=True,  # an interrupt at the terminal is for the caller alone
        )

    def _request(self) -> bytes:
        form = self._spec.process
        assert form is not None
        request = {
            "module": form.module,
            "file": form.file,
            "qualname": form.qualname,
            "memory_bytes": form.memory_bytes,
            "outlives_caller": self._spec.effects == "write",
            "key": tool_call_key.get(),
        }
        return json.dumps(request).encode() + b"\n"

    def _answer(self, ours: socket.socket, process: subprocess.Popen[bytes]) -> bytes:
        """Two lines, or what came of them before the process ended or wrote too much."""
        ours.settimeout(POLL_S)  # what the tool has started may hold its end open
        answer = bytearray()
        while answer.count(b"\n") < 2 and len(answer) <= ESCAPED * self._max_bytes:
            try:
                chunk = ours.recv(1 << 20)
            except TimeoutError:
                if process.poll() is not None:
                    break
                continue
            except OSError:
                break
            if not chunk:
                break
            answer += chunk
        return bytes(answer)

    def _failed(self, how: str, where: str = "") -> ToolFailed:
        spec = self._spec
        return ToolFailed(f"{spec.name}: {how}", tool=spec.name, where=where or spec.where)


def _end(code: int) -> str:
    if code >= 0:
        return f"its process exited with code {code} before it returned"
    try:
        name = f" ({signal.Signals(-code).name})"
    except ValueError:
        name = ""
    return f"its process was killed by signal {-code}{name}"
