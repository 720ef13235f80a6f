"""Runs that are stopped under faults: `python tests/cli/stop_trials.py [trials] [seed] [fault]`.

Each trial is one process with one fault and one way to stop it: `--deadline`, Ctrl-C, SIGTERM,
SIGHUP, and in a process of the user's own a deadline, a cancelled task and Ctrl-C. Measured is how
late the typed error and the end of the process come. Printed is a table of faults and ways.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.cli.conftest import environment  # noqa: E402
from tests.cli.stop_faults import (  # noqa: E402
    FAULTS,
    HANGING,
    IN_PROCESS,
    PROGRAMS,
    BadServer,
    Fault,
    bad_server,
)

SIGNALS = {
    "Ctrl-C": (signal.SIGINT, 130, "interrupted"),
    "SIGTERM": (signal.SIGTERM, 143, "terminated"),
    "SIGHUP": (signal.SIGHUP, 129, "terminated"),
}
IN_CALLER = ("own deadline", "own cancel", "own Ctrl-C")
WAYS = ("--deadline", *SIGNALS, *IN_CALLER)
DEADLINE_S = 1.5
PATIENCE_S = 12.0
PATIENCE_OF_TESTS_S = 90.0
ALLOWED_S = 1.0
PAYING_S = 3.0
ORPHAN_S = 1.5
PR_SET_CHILD_SUBREAPER = 36


@dataclass(slots=True)
class Found:
    """What one trial gave.

    Attributes:
        late_s: From the deadline or the signal to the typed error, or to the end without one.
        gone_s: The same to the end of the process.
        wrong: What was not as it should be.
        slow: What was right, but came too late.
        err: Standard error.
    """

    late_s: float = 0.0
    gone_s: float = 0.0
    wrong: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    err: str = ""


def combinations() -> list[tuple[str, str]]:
    """Faults with the ways that stop them."""
    found = []
    for name, fault in FAULTS.items():
        for way in WAYS:
            if way in ("--deadline", "own deadline") and not fault.has_deadline:
                continue
            if way in IN_CALLER and (fault.batch or fault.holds == "loop"):
                continue  # code of the user holds the user's own loop
            if way in IN_CALLER and fault.program == "asks":
                continue  # there a question without a reader is an error at once
            if way == "--deadline" and fault.holds == "loop":
                continue  # the run is held
            if way == "own Ctrl-C" and fault.engine in ("stopped_loading", "loading"):
                continue
            found.append((name, way))
    return found


class Trial:
    """One process that is stopped.

    Args:
        name: Name of the fault.
        way: How it is stopped.
        folder: Folder of its files.
        chance: Chooses the moment.
        patience_s: Time after which the process hangs.
    """

    def __init__(
        self, name: str, way: str, folder: Path, chance: random.Random, patience_s: float
    ) -> None:
        self._way, self._folder, self._chance = way, folder, chance
        self._patience_s = patience_s
        self._fault: Fault = FAULTS[name]
        self._lines: list[tuple[float, str]] = []
        self._notes: list[dict[str, object]] = []
        self._ended = threading.Event()

    def run(self) -> Found:
        """Start the process, stop it, and look at what it did."""
        (self._folder / "job.py").write_text(PROGRAMS, "utf-8")
        (self._folder / "caller.py").write_text(IN_PROCESS, "utf-8")
        (self._folder / "in.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(40)))
        (self._folder / "traces").mkdir()
        others = children_of(os.getpid())
        with bad_server(self._fault.server) as server, self._process(server) as process:
            found = self._observe(process, server)
        found.err = "".join(line for _, line in self._lines)
        for pid in orphans_but(others):
            found.wrong.append(f"orphan {command_of(pid)[-60:]}")
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if "Traceback" in found.err and self._way != "own Ctrl-C":
            found.wrong.append("traceback")
        return found

    @contextmanager
    def _process(self, server: BadServer) -> Iterator[subprocess.Popen[str]]:
        fault, way = self._fault, self._way
        engine = "embedded" if fault.engine != "none" else server.url
        if way in IN_CALLER:
            kind = {"own deadline": "deadline", "own cancel": "cancel"}.get(way, "interrupt")
            command = ["caller.py", fault.program, kind, engine, str(DEADLINE_S)]
        else:
            command = ["-m", "agentrt", "run", f"job.py:{fault.program}", "--engine", engine]
            command += ["--batch", "in.jsonl", "--concurrency", "40"] if fault.batch else []
            command += ["--deadline", str(DEADLINE_S)] if way == "--deadline" else []
        env = environment() | {
            "AGENTRT_ENGINE": engine,
            "AGENTRT_ESTIMATES": "off",
            "XDG_STATE_HOME": str(self._folder / "state"),
            "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(self._folder)]),
        }
        if fault.engine == "hung":
            hook = HANGING.format(folder=str(self._folder))
            (self._folder / "sitecustomize.py").write_text(hook, "utf-8")
        with subprocess.Popen(
            [sys.executable, *command],
            cwd=self._folder,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: (
                [signal.signal(one, signal.SIG_DFL) for one in (signal.SIGHUP, signal.SIGTERM)]
                and signal.signal(signal.SIGINT, signal.default_int_handler)
            ),
        ) as process:
            for read in (self._read_err, self._read_out):
                threading.Thread(target=read, args=(process,), daemon=True).start()
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def _read_err(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self._lines.append((time.time(), line))

    def _read_out(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith('{"what"'):
                self._notes.append(json.loads(line))

    def _observe(self, process: subprocess.Popen[str], server: BadServer) -> Found:
        found = Found()
        if not self._wait_until_begun(process, server):
            found.wrong.append("did not begin")
            return found
        begun_at = self._begun_at()
        if self._fault.engine != "none":
            threading.Thread(target=self._break_engine, args=(process,), daemon=True).start()
        if self._way.endswith("deadline"):
            asked_at = begun_at + DEADLINE_S
        else:
            time.sleep(self._chance.uniform(0.0, 0.7))
            asked_at = self._stop(process)
        may_stay = self._fault.holds == "thread" and self._way in IN_CALLER
        gone_at = wait_gone(process, asked_at + (2.0 if may_stay else self._patience_s))
        self._ended.set()
        found.gone_s = self._patience_s if gone_at is None else gone_at - asked_at
        if gone_at is not None:
            process.wait()
        time.sleep(0.02)  # until its last lines are read
        self._judge(found, process.returncode, asked_at)
        if gone_at is None and not may_stay:
            found.wrong.append("hangs")
        return found

    def _wait_until_begun(self, process: subprocess.Popen[str], server: BadServer) -> bool:
        """Wait until the fault is there, or may be made."""
        until = time.monotonic() + 60
        while time.monotonic() < until and process.poll() is None:
            if self._fault.engine in ("loading", "stopped_loading"):
                if engine_of(process.pid):
                    return True
            elif self._fault.server == "good":
                if (self._folder / "begun").exists():
                    return True
            elif server.asked.is_set():
                return True
            time.sleep(0.002)
        return False

    def _begun_at(self) -> float:
        begun = self._folder / "begun"
        return float(begun.read_text()) if begun.exists() else time.time()

    def _break_engine(self, process: subprocess.Popen[str]) -> None:
        kind = self._fault.engine
        self._ended.wait(0.0 if kind == "stopped_loading" else self._chance.uniform(0.0, 0.4))
        if kind == "hung":
            (self._folder / "hang").touch()
        while kind == "killed" and not self._ended.wait(0.1):
            signal_to(engine_of(process.pid), signal.SIGKILL)
        if kind in ("stopped", "stopped_loading"):
            signal_to(engine_of(process.pid), signal.SIGSTOP)

    def _stop(self, process: subprocess.Popen[str]) -> float:
        """Ask the process to stop, and give the moment."""
        asked_at = time.time()
        if self._way == "own cancel":
            (self._folder / "stop").touch()
        elif self._way == "SIGTERM":
            process.terminate()
        else:
            number = signal.SIGHUP if self._way == "SIGHUP" else signal.SIGINT
            os.killpg(process.pid, number)
        return asked_at

    def _judge(self, found: Found, code: int | None, asked_at: float) -> None:
        """Compare lateness, exit code and words with what they should be."""
        fault, way = self._fault, self._way
        err = "".join(line for _, line in self._lines)
        ended_at = [
            at for at, line in self._lines if line.startswith(("error:", "KeyboardInterrupt"))
        ]
        ended_at += [float(str(one["at"])) for one in self._notes if one["what"] == "ended"]
        found.late_s = (ended_at[0] - asked_at) if ended_at else found.gone_s
        held = fault.holds == "write"
        if found.late_s > ALLOWED_S and not (held and way not in ("--deadline", "own deadline")):
            found.slow.append(f"{found.late_s:.1f} s late")
        if code is not None and found.gone_s > ALLOWED_S + (PAYING_S if held else 0):
            found.slow.append(f"gone {found.gone_s:.1f} s late")
        if held and way != "own Ctrl-C" and not (self._folder / "paid").exists():
            found.wrong.append("the write tool was cut short")
        if way == "--deadline":
            codes = fault.codes
        elif way == "own Ctrl-C":
            codes = (-signal.SIGINT,)
        else:
            codes = (SIGNALS[way][1],) if way in SIGNALS else (0,)
        if code is not None and code not in codes and not (fault.server == "refuses" and code == 3):
            found.wrong.append(f"exit {code}")
        if fault.holds == "write" and "waiting up to" not in err:
            found.wrong.append("no word of the write tool")
        if fault.holds == "loop" and "holds the event loop" not in err:
            found.wrong.append("no word of the blocked loop")
        elif way in SIGNALS and SIGNALS[way][2] not in err and fault.holds != "loop":
            found.wrong.append("no word of the signal")


def wait_gone(process: subprocess.Popen[str], until: float) -> float | None:
    """When the process ended; None if it has not by then."""
    descriptor = os.pidfd_open(process.pid)
    try:
        ready, _, _ = select.select([descriptor], [], [], max(0.1, until - time.time()))
        return time.time() if ready else None
    finally:
        os.close(descriptor)


def children_of(pid: int) -> set[int]:
    """Processes with this parent."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == pid and fields[0] != "Z":
                    found.add(int(entry.name))
    return found


def engine_of(pid: int) -> int | None:
    """The engine of a process, if it has one."""
    engines = [one for one in children_of(pid) if "agentrt.engine.process.main" in command_of(one)]
    return engines[0] if engines else None


def command_of(pid: int) -> str:
    """Command line of a process; "" if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
    return ""


def signal_to(pid: int | None, number: int) -> None:
    """Send a signal if there is such a process."""
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def orphans_but(others: set[int]) -> set[int]:
    """Processes that have come to this one, and that do not end by themselves."""
    until = time.monotonic() + ORPHAN_S
    while (left := children_of(os.getpid()) - others) and time.monotonic() < until:
        time.sleep(0.02)
    return left


def adopt_orphans() -> None:
    """Become the parent of processes whose own parents have ended."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def play(
    name: str, way: str, chance: random.Random, patience_s: float = PATIENCE_OF_TESTS_S
) -> Found:
    """One trial in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return Trial(name, way, Path(folder), chance, patience_s).run()


def table(found: dict[tuple[str, str], list[Found]]) -> Iterator[str]:
    """A line a fault and way: trials, worst lateness, failures."""
    yield f"{'fault':<30} {'way':<13} {'n':>3} {'error s':>8} {'gone s':>7}  failures"
    for (name, way), trials in sorted(found.items()):
        late, gone = max(one.late_s for one in trials), max(one.gone_s for one in trials)
        wrong = "; ".join(sorted({what for one in trials for what in one.wrong + one.slow}))
        yield f"{name:<30} {way:<13} {len(trials):>3} {late:>8.2f} {gone:>7.2f}  {wrong}"
    every = [one for trials in found.values() for one in trials]
    worst = max(one.late_s for one in every)
    failed = sum(bool(one.wrong or one.slow) for one in every)
    yield f"{len(every)} trials, worst {worst:.2f} s late, {failed} failed"
    yield "with a write tool under way only a deadline ends the run first: the process is held"


def main(trials: int, seed: int, only: str) -> int:
    """Play trials over all faults in turn, and print the table."""
    adopt_orphans()
    chance = random.Random(seed)
    plan = [one for one in combinations() if only in " / ".join(one)]
    chance.shuffle(plan)
    found: dict[tuple[str, str], list[Found]] = defaultdict(list)
    for number in range(trials):
        name, way = plan[number % len(plan)]
        one = play(name, way, chance, PATIENCE_S)
        found[name, way].append(one)
        if one.wrong or one.slow:
            what = "; ".join(one.wrong + one.slow)
            print(f"{name}, {way}: {what}\n{one.err[-1500:]}", file=sys.stderr)
    print("\n".join(table(found)))
    return int(any(one.wrong or one.slow for trials in found.values() for one in trials))


if __name__ == "__main__":
    given = [*sys.argv[1:], "", "", ""][:3]
    sys.exit(main(int(given[0] or 200), int(given[1] or 0), given[2]))
