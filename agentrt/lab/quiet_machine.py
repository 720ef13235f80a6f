"""A check that the machine is quiet: the CPU time that processes of others take."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from agentrt.base.cpu_cores import core_numbers
from agentrt.base.record import record
from agentrt.lab.errors import BenchFailed
from agentrt.lab.progress import log

Busy: TypeAlias = Literal["note", "wait", "refuse"]
"""Ways to take it if others use the machine before a play."""
BUSY: tuple[str, ...] = get_args(Busy)
_PROC = Path("/proc")
_WINDOW_S = 0.5
_IDLE, _IO_WAIT, _GUEST = 3, 4, 8
_GROUP, _FIRST_TIME, _LAST_TIME = 2, 11, 15  # fields of a process after its name


@record
class CpuReading:
    """CPU time at an instant.

    Attributes:
        at_s: The instant.
        busy_s: CPU seconds that were used since the start of the machine, on our cores; time that
            a hypervisor took counts.
        own_s: CPU seconds of this process, and of the groups of processes that are measured.
    """

    at_s: float
    busy_s: float
    own_s: float

    def others_cores(self, before: CpuReading) -> float:
        """Cores that were used by others since an earlier reading, on average."""
        others_s = self.busy_s - before.busy_s - (self.own_s - before.own_s)
        return max(0.0, others_s / max(1e-9, self.at_s - before.at_s))


def read_cpu(groups: tuple[int, ...] = (), proc: Path = _PROC) -> CpuReading | None:
    """Read the CPU time so far; None if this system does not report it.

    Args:
        groups: Ids of groups of processes that are not others.
        proc: Folder of the system's counters.
    """
    cpus = {f"cpu{number}" for number in core_numbers()}
    try:
        rows = [line.split() for line in (proc / "stat").read_text("ascii").splitlines()]
    except OSError:
        return None
    ticks = [[int(field) for field in row[1:]] for row in rows if row[0] in cpus]
    if not ticks:
        return None
    busy = sum(sum(row[:_GUEST]) - row[_IDLE] - row[_IO_WAIT] for row in ticks)
    own_s = time.process_time() + group_cpu_s(groups, proc)
    return CpuReading(time.monotonic(), busy / os.sysconf("SC_CLK_TCK"), own_s)


def group_cpu_s(groups: tuple[int, ...], proc: Path = _PROC) -> float:
    """CPU seconds of some groups of processes so far; 0 if this system does not report it."""
    if not proc.is_dir():
        return 0.0
    return sum(_group_ticks(set(groups), proc)) / os.sysconf("SC_CLK_TCK")


class QuietMachine:
    """Waits for a quiet machine, or refuses a busy one, before a play.

    All that is measured is halted during the check, so what is busy are others.

    Args:
        busy: `note` only reports the load, `wait` waits until it is gone, `refuse` fails.
        most_cores: Cores of others up to which the machine is quiet.
        patience_s: Longest time to wait.
        others: Measures the cores of others; None if unknown.
    """

    def __init__(
        self,
        busy: Busy = "note",
        *,
        most_cores: float = 0.1,
        patience_s: float = 600.0,
        others: Callable[[], float | None] | None = None,
    ) -> None:
        self._busy, self._most_cores, self._patience_s = busy, most_cores, patience_s
        self._others = others or others_cores

    def check(self) -> float | None:
        """Measure the load of others before a play, and wait or refuse; returns it in cores.

        Raises:
            BenchFailed: Others use the machine.
        """
        gives_up_at_s = time.monotonic() + self._patience_s
        said = False
        while True:
            cores = self._others()
            if cores is None or cores <= self._most_cores or self._busy == "note":
                return cores
            if self._busy == "refuse" or time.monotonic() >= gives_up_at_s:
                raise BenchFailed(
                    f"other processes take {cores:.2f} cores of this machine",
                    hint="End them, or give --busy note and read the load in the file",
                )
            if not said:
                log(f"waiting: other processes take {cores:.2f} cores")
                said = True


def others_cores(window_s: float = _WINDOW_S) -> float | None:
    """Cores that others use, over a short window; None if this system does not report it."""
    before = read_cpu()
    time.sleep(window_s)
    after = read_cpu()
    return None if before is None or after is None else after.others_cores(before)


def _group_ticks(groups: set[int], proc: Path) -> Iterator[int]:
    """CPU ticks of each process of some groups, with those of its children that have ended."""
    for process in proc.iterdir() if groups else ():
        if process.name.isdigit():
            try:
                fields = (process / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            if int(fields[_GROUP]) in groups:
                yield sum(int(field) for field in fields[_FIRST_TIME:_LAST_TIME])
