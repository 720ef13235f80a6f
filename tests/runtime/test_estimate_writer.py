"""What runs teach is kept soon after they end: through a crash, beside others, or not at all."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentrt import program, tool
from agentrt.base.config import SchedulerConfig
from agentrt.protocol.events import Scheduled
from agentrt.runtime import Runtime
from agentrt.runtime.estimate_store.database import EstimateStore
from agentrt.runtime.estimate_store.writer import SAVE_EVERY_S, EstimateWriter
from agentrt.scheduler.estimates.estimates import Estimates
from agentrt.scheduler.estimates.row import CALLS
from agentrt.testing import LoopClock, ScriptedBackend, run_virtual

ENGINES = "default=scripted"


@tool(effects="pure")
async def looked_up(word: str) -> dict[str, Any]:
    """Looks a word up."""
    await anyio.sleep(0.1)
    return {"pages": [f"{word} page"]}


@tool(effects="pure")
async def page_read(page: str, language: str = "en") -> str:
    """Reads a page."""
    await anyio.sleep(0.1)
    return f"{page} in {language}"


@program
async def reads(word: str) -> str:
    found = await looked_up(word)
    await anyio.sleep(0.5)
    return str(await page_read(found["pages"][0], language="en"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "estimates.sqlite"


class Process:
    """A runtime with a memory, as one process has it, and what it saw."""

    def __init__(self, path: Path) -> None:
        self.memory = EstimateWriter(path, ENGINES)
        self.memory.load()
        self.seen: list[Any] = []

    def on_events(self, events: Any) -> None:
        self.seen += events

    async def serve(self, body: Callable[[Runtime], Awaitable[Any]], *, closes: bool) -> None:
        clock = LoopClock()
        backend = ScriptedBackend(lambda request, prompt: "x", clock=clock)
        async with Runtime(
            {"default": (backend, None)},
            clock=clock,
            observers=[self],
            scheduler=SchedulerConfig(speculate=True),
            estimates=self.memory.estimates,
            patterns=self.memory.patterns,
            on_run_ended=self.memory.schedule_save,
        ) as runtime:
            await body(runtime)
        if closes:
            await self.memory.aclose()

    async def written(self) -> None:
        """What was handed over is in the file."""
        writer = self.memory._writer
        assert writer is not None
        await anyio.to_thread.run_sync(writer.submit(lambda: None).result)


def run(process: Process, *words: str, closes: bool = True) -> None:
    async def body(runtime: Runtime) -> None:
        for word in words:
            await runtime.run(reads, word)

    run_virtual(lambda: process.serve(body, closes=closes))


def runs_kept(path: Path) -> int:
    """How many runs the file tells of."""
    rows = EstimateStore(path).load(ENGINES)
    found = [r.count for r in rows if r.quantity == "path_s" and r.site.startswith("reads ")]
    return max(found, default=0)


def test_what_a_run_taught_is_kept_before_the_runtime_closes(path: Path) -> None:
    one = Process(path)

    async def body(runtime: Runtime) -> None:
        await runtime.run(reads, "a")
        assert runs_kept(path) == 0, "nobody waits for a disk"
        await anyio.sleep(SAVE_EVERY_S)
        await one.written()
        assert runs_kept(path) == 1

    run_virtual(lambda: one.serve(body, closes=True))


def test_many_runs_are_saved_together(path: Path) -> None:
    one = Process(path)

    async def body(runtime: Runtime) -> None:
        began_s = anyio.current_time()
        for number in range(40):
            await runtime.run(reads, f"w{number}")
        await anyio.sleep(SAVE_EVERY_S)
        took_s = anyio.current_time() - began_s
        await one.written()
        assert 2 <= one.memory.saves <= 1 + took_s / SAVE_EVERY_S
        assert runs_kept(path) == 40

    run_virtual(lambda: one.serve(body, closes=True))


def test_nothing_is_written_while_nothing_is_learned(path: Path) -> None:
    one = Process(path)

    async def body(runtime: Runtime) -> None:
        await anyio.sleep(10 * SAVE_EVERY_S)

    run_virtual(lambda: one.serve(body, closes=True))
    assert one.memory.saves == 0
    assert not path.exists()


def test_a_process_that_is_killed_leaves_what_it_had_saved(path: Path) -> None:
    code = f"""
import os, signal, sys
from pathlib import Path
sys.path[:0] = [{str(Path(__file__).parent)!r}]
import test_estimate_writer as here
import anyio
one = here.Process(Path(sys.argv[1]))
async def body(runtime):
    for word in "abc":
        await runtime.run(here.reads, word)
    await anyio.sleep(here.SAVE_EVERY_S)
    await one.written()
    await runtime.run(here.reads, "lost")
    os.kill(os.getpid(), signal.SIGKILL)
here.run_virtual(lambda: one.serve(body, closes=True))
"""
    folder = Path(__file__).parents[2]
    child = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, cwd=folder, timeout=60
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    rows = EstimateStore(path, str(folder)).load(ENGINES)
    assert {r.count for r in rows if r.quantity == "path_s" and "reads " in r.site} == {3}
    assert EstimateStore(path).save(ENGINES, rows), "and nobody finds it locked"


def test_processes_that_serve_side_by_side_add_up(path: Path) -> None:
    one, other = Process(path), Process(path)

    async def body(first: Runtime, second: Runtime) -> None:
        for number in range(6):
            await first.run(reads, f"a{number}")
            await second.run(reads, f"b{number}")
            await anyio.sleep(SAVE_EVERY_S)
            await one.written()
            await other.written()

    async def main() -> None:
        async def nested(first: Runtime) -> None:
            await other.serve(lambda second: body(first, second), closes=True)

        await one.serve(nested, closes=True)

    run_virtual(main)
    assert runs_kept(path) == 12


def test_what_could_not_be_written_is_written_later(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run(Process(path), "a")
    monkeypatch.setattr("agentrt.runtime.estimate_store.database.BUSY_S", 0.0)
    one = Process(path)

    async def body(runtime: Runtime) -> None:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        for word in "bc":  # the second save fails as the first
            await runtime.run(reads, word)
            await anyio.sleep(SAVE_EVERY_S)
            await one.written()
        holder.close()
        assert runs_kept(path) == 1

    run_virtual(lambda: one.serve(body, closes=True))
    assert runs_kept(path) == 3
    assert caplog.text.count("is not kept") == 1, "told once"


@pytest.mark.parametrize("broken", ["text", "quantity", "origin", "later"])
def test_a_file_that_is_none_of_ours_breaks_no_run(
    path: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    run(Process(path), *"abcd")
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if broken == "quantity":
            database.execute("UPDATE estimates SET quantity = 'colour' WHERE quantity = 'depth'")
        elif broken == "origin":
            database.execute("UPDATE estimates SET sums = '{\"[3]\": 1}' WHERE quantity = 'calls'")
        elif broken == "later":
            database.execute("PRAGMA user_version = 99")
    database.close()
    if broken == "text":
        path.write_bytes(b"no database" * 1000)
    one = Process(path)
    run(one, "d")
    kept = list(path.parent.glob("*.broken-*"))
    if broken == "later":
        assert not kept
        assert caplog.text.count("later agentrt") == 1
    else:
        assert len(kept) == 1
        assert caplog.text.count("learning begins anew") == 1
        assert runs_kept(path) == 1


def test_the_next_process_calls_ahead_what_this_one_saw(path: Path) -> None:
    """Its very first run does: what comes next, and where the page comes from, was kept."""
    run(Process(path), *"abcd")
    one = Process(path)
    run(one, "z")
    told = [e.reason for e in one.seen if isinstance(e, Scheduled) and e.decision == "speculated"]
    assert told == [
        'page_read({"page":"z page","language":"en"}) is likely next',
        "page_read was called ahead",
    ]


def test_patterns_of_processes_add_up_too(path: Path) -> None:
    run(Process(path), *"abcd")
    one, other = Process(path), Process(path)
    run(one, *"ef")
    run(other, *"ghi")
    rows = EstimateStore(path).load(ENGINES)
    (after_search,) = [r for r in rows if r.quantity == CALLS and r.site == "looked_up"]
    assert after_search.count == 4 + 2 + 3
    assert after_search.sums["hits"] == pytest.approx(after_search.sums["tried"])


def test_estimates_that_are_handed_in_stay_whose_they_are(path: Path) -> None:
    mine = Estimates()
    memory = EstimateWriter(None, ENGINES, mine)
    memory.load()
    assert memory.estimates is mine
    assert not os.path.exists(path)
