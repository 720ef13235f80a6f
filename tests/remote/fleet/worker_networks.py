"""A network namespace for each worker of a fleet, and a bridge to them that a test can cut.

All of it lies in a namespace of its own, with a process namespace around it: `isolated` gives the
command that runs there. When that command ends, however it ends, the kernel ends all processes in
it, and with them go the namespaces, links and addresses. The machine's own network has no part
of it.
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Literal

Cut = Literal["link", "answers"]
"""`link`: no frame passes, as behind a pulled cable. `answers`: requests arrive, answers vanish."""

NET = "10.213.0"
CLIENT = f"{NET}.254"
_INSIDE = "AGENTRT_TEST_NAMESPACES"
_COMMAND_S = 20.0
_ISOLATION = ("--net", "--pid", "--fork", "--kill-child", "--mount-proc")
_HOLDER = "import sys; print('here', flush=True); sys.stdin.read()"
"""A process that keeps a namespace for as long as its standard input is open."""


@functools.cache
def isolation() -> tuple[tuple[str, ...], str]:
    """The beginning of a command that runs in namespaces of its own, or why there is none.

    Returns:
        The beginning and "", or () and the reason.
    """
    for program in ("unshare", "nsenter", "ip"):
        if shutil.which(program) is None:
            return (), f"there is no program {program!r}"
    trial = f"{_ip()} link set lo up && {_ip()} link add trial type bridge"
    why = ""
    for more in ((), ("--map-root-user",)):
        command = ("unshare", *more, *_ISOLATION)
        done = subprocess.run(
            [*command, "sh", "-c", trial], capture_output=True, text=True, check=False, timeout=30
        )
        if done.returncode == 0:
            return command, ""
        why = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it failed"
    return (), f"network namespaces are not permitted: {why}"


def enter_namespaces(module: str, given: Sequence[str]) -> bool:
    """Run this command anew in namespaces of its own, if that is permitted.

    Args:
        module: Name of the module that runs as a command.
        given: Its arguments.

    Returns:
        Whether this process is in them; False says on standard error why not.
    """
    if os.environ.get(_INSIDE):
        return True
    beginning, why = isolation()
    if not beginning:
        print(why, file=sys.stderr)
        return False
    command = (*beginning, sys.executable, "-m", module, *given)
    os.execvpe(command[0], command, {**os.environ, _INSIDE: "1"})


class WorkerNetworks:
    """Namespaces of workers behind one bridge, made in the namespace of this process.

    Args:
        count: Number of workers.
    """

    def __init__(self, count: int) -> None:
        self._holders: list[subprocess.Popen[str]] = []
        _run("ip", "link", "set", "lo", "up")
        _run("ip", "link", "add", "workers", "type", "bridge")
        _run("ip", "addr", "add", f"{CLIENT}/24", "dev", "workers")
        _run("ip", "link", "set", "workers", "up")
        for number in range(count):
            self._add(number)

    def _add(self, number: int) -> None:
        holder = subprocess.Popen(
            ["unshare", "--net", sys.executable, "-I", "-S", "-c", _HOLDER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._holders.append(holder)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "here\n", "the namespace of a worker was not made"
        peer = ("peer", "name", "eth0", "netns", str(holder.pid))
        _run("ip", "link", "add", self._link(number), "type", "veth", *peer)
        _run("ip", "link", "set", self._link(number), "master", "workers", "up")
        inside = self.entry(number)
        _run(*inside, "ip", "addr", "add", f"{self.host(number)}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            _run(*inside, "ip", "link", "set", device, "up")

    def host(self, number: int) -> str:
        """Address of a worker."""
        return f"{NET}.{number + 1}"

    def entry(self, number: int) -> tuple[str, ...]:
        """The beginning of a command that runs in the namespace of a worker."""
        return ("nsenter", "--net", "-t", str(self._holders[number].pid))

    def cut(self, number: int, how: Cut) -> None:
        """Cut a worker off; its connections are not told."""
        if how == "link":
            _run("ip", "link", "set", self._link(number), "down")
        else:
            _run(*self.entry(number), "ip", "route", "add", "blackhole", f"{CLIENT}/32")

    def restore(self, number: int, how: Cut) -> None:
        """Undo a cut."""
        if how == "link":
            _run("ip", "link", "set", self._link(number), "up")
        else:
            _run(*self.entry(number), "ip", "route", "del", "blackhole", f"{CLIENT}/32")

    def close(self) -> None:
        """End the namespaces of the workers, and take the bridge away."""
        for holder in self._holders:
            holder.kill()
            holder.communicate()
        _run("ip", "link", "del", "workers")

    @staticmethod
    def _link(number: int) -> str:
        return f"worker{number}"


def _ip() -> str:
    return shutil.which("ip") or "ip"


def _run(*command: str) -> None:
    done: subprocess.CompletedProcess[str] = subprocess.run(
        _found(command), capture_output=True, text=True, check=False, timeout=_COMMAND_S
    )
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")


def _found(command: Sequence[str]) -> list[str]:
    return [shutil.which(command[0]) or command[0], *command[1:]]
