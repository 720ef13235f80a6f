"""Workers of a fleet as processes that a test kills, stops, cuts off and starts again."""

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio
import httpx

from tests.remote.fleet.worker_networks import WorkerNetworks

Fault = Literal["kill", "stop", "link", "answers"]
"""`kill`: SIGKILL, and it is started again at once. `stop`: SIGSTOP. `link` and `answers`: it
is cut off, see `worker_networks`."""

CUTS: tuple[Fault, ...] = ("link", "answers")
FAULTS: tuple[Fault, ...] = ("kill", "stop", *CUTS)
POLL_S = 0.05
_END_S = 20.0


@dataclass(frozen=True)
class WorkerPlan:
    """How to start a worker.

    Attributes:
        command: Command line; `{host}` and `{port}` stand for the address.
        model: Name of its model in requests.
        kind: Kind of server.
        env: Variables beside those of this process.
        key: Variable of the key of its API with the key, or {}.
    """

    command: Sequence[str]
    model: str
    kind: str
    env: Mapping[str, str] = field(default_factory=dict)
    key: Mapping[str, str] = field(default_factory=dict)


class WorkerProcess:
    """A worker at one address, however often it is ended and started again.

    Args:
        plan: How to start it.
        number: Its number.
        networks: Namespaces of the workers; None lets it listen at the loopback.
        logs: Folder of its output; None drops it.
    """

    def __init__(
        self, plan: WorkerPlan, number: int, networks: WorkerNetworks | None, logs: Path | None
    ) -> None:
        host, port, entry = "127.0.0.1", 8000, tuple[str, ...]()
        if networks is not None:
            host, entry = networks.host(number), networks.entry(number)
        else:
            with socket.create_server((host, 0)) as listener:
                port = listener.getsockname()[1]
        words = [part.replace("{host}", host).replace("{port}", str(port)) for part in plan.command]
        self._command = [*entry, *words]
        self._env = {**os.environ, **plan.env}
        self._log = Path(os.devnull) if logs is None else logs / f"worker{number}.log"
        self._networks = networks
        self._process: subprocess.Popen[bytes] | None = None
        self.number, self.host = number, host
        self.url = f"http://{host}:{port}"

    def start(self) -> None:
        """Start the process."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a signal reaches the engine that it has started as well
            )

    def disturb(self, fault: Fault) -> None:
        """Bring a fault on it."""
        if fault == "kill":
            self._signal(signal.SIGKILL)
            self._running.wait()
            self.start()
        elif fault == "stop":
            self._signal(signal.SIGSTOP)
        else:
            assert self._networks is not None, "a worker at the loopback cannot be cut off"
            self._networks.cut(self.number, fault)

    def restore(self, fault: Fault) -> None:
        """Undo a fault; after a kill there is nothing to undo."""
        if fault == "stop":
            self._signal(signal.SIGCONT)
        elif fault != "kill":
            assert self._networks is not None, "a worker at the loopback is never cut off"
            self._networks.restore(self.number, fault)

    def close(self) -> None:
        """End the process for good."""
        if self._process is None:
            return
        self._signal(signal.SIGCONT)
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        self._signal(signal.SIGKILL)
        self._process.wait()

    async def until_ready(self) -> None:
        """Wait until it answers its health check."""
        async with httpx.AsyncClient(trust_env=False, timeout=2.0) as client:
            while True:
                try:
                    if (await client.get(f"{self.url}/health")).status_code == 200:
                        return
                except httpx.HTTPError:
                    pass
                assert self._running.poll() is None, f"worker {self.number} has ended by itself"
                await anyio.sleep(POLL_S)

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "start() comes first"
        return self._process

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._running.pid, number)
