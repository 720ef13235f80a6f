"""A batch of payments that is killed at any point pays nothing twice and forgets nothing."""

import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import environment

RECORDS = 6
POINTS = 80
"""Points at which a batch of so many records may be killed, about."""

PAYMENTS = """
import itertools, os, signal
from agentrt import idempotency_key, program, tool

KILL_AT = int(os.environ.get("KILL_AT", "0"))
points = itertools.count(1)

def point() -> None:
    if next(points) == KILL_AT:
        os.kill(os.getpid(), signal.SIGKILL)

def fsync(descriptor: int, sync=os.fsync) -> None:
    point()
    sync(descriptor)
    point()

os.fsync = fsync

@tool(effects="write")
def pay(what: str) -> str:
    point()
    with open("ledger", "a") as ledger:
        ledger.write(f"{what} {idempotency_key()}\\n")
    point()
    return f"receipt {what}"

@program
async def job(n: int) -> list[str]:
    return [await pay(f"{n}a"), await pay(f"{n}b")]
"""


def command(folder: Path, url: str, *args: str, kill_at: int = 0) -> Any:
    """One command that works on the batch."""
    engine = ("--engine", url, "--model", "tiny", "--trace", "off")
    batch = ("job.py", "--batch", "in.jsonl", "--resume", "out.jsonl", "--concurrency", "3")
    return subprocess.run(
        [sys.executable, "-m", "agentrt", "run", *engine, *batch, *args],
        cwd=folder,
        env=environment() | {"KILL_AT": str(kill_at)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def paid(folder: Path) -> list[str]:
    """Payments in the order in which they were made."""
    file = folder / "ledger"
    return [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []


def unknown_in(err: str) -> list[int]:
    """Numbers of the records whose outcome is said to be unknown."""
    found = re.search(r"^outcome unknown \(lines? ([\d, ]+)\)", err, re.MULTILINE)
    return [int(one) for one in found[1].split(",")] if found else []


def check(folder: Path, url: str, kills: list[int]) -> int:
    """Kill a batch at each of the points, go on with it, and look at the ledger.

    Returns:
        Number of commands that were killed; one that is done before its point is not.
    """
    folder.mkdir(exist_ok=True)
    (folder / "job.py").write_text(PAYMENTS, "utf-8")
    (folder / "in.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(1, RECORDS + 1)))
    killed = 0
    for kill_at in kills:
        done = command(folder, url, kill_at=kill_at)
        assert done.returncode in (-9, 0, 1), done.stderr
        killed += done.returncode == -9
    done = command(folder, url)
    unknown = unknown_in(done.stderr)
    assert done.returncode == (1 if unknown else 0), done.stderr
    assert done.stderr.count("OutcomeUnknown") >= len(unknown)
    payments = Counter(paid(folder))
    assert not [one for one, times in payments.items() if times > 1], "paid twice"
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert len(rows) == RECORDS
    for n, row in enumerate(rows, start=1):
        if n in unknown:
            assert row is None
        else:
            assert row == [f"receipt {n}a", f"receipt {n}b"]
            assert payments[f"{n}a"] == payments[f"{n}b"] == 1
    # A person looks at the ledger: what was not paid is paid by --again.
    for n in unknown:
        missing = {f"{n}a", f"{n}b"} - set(paid(folder))
        before = len(paid(folder))
        if f"{n}a" in missing or (f"{n}b" in missing and is_done(folder, n, "a")):
            done = command(folder, url, "--again", str(n))
            assert n not in unknown_in(done.stderr), done.stderr
            assert len(paid(folder)) == before + len(missing)
    assert max(Counter(paid(folder)).values()) == 1
    return killed


def is_done(folder: Path, n: int, which: str) -> bool:
    """Whether the state file knows the end of a payment."""
    lines = (folder / "out.jsonl.state").read_text().splitlines()
    text = json.dumps(f"receipt {n}{which}")
    return any(json.loads(line).get("text") == text for line in lines)


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_batch_pays_once(seed: int, tmp_path: Path, server_url: str) -> None:
    check(tmp_path, server_url, [random.Random(seed).randint(1, POINTS)])


@pytest.mark.slow
def test_batches_that_are_killed_again_pay_once(tmp_path: Path, server_url: str) -> None:
    """Also commands that go on with a batch that was killed before; `BATCH_KILLS=100` for more."""
    rng = random.Random(14)
    killed = trials = 0
    while killed < int(os.environ.get("BATCH_KILLS", "14")):
        trials += 1
        kills = [rng.randint(1, POINTS), rng.randint(1, POINTS // 2)]
        killed += check(tmp_path / str(trials), server_url, kills)
    print(f"{killed} kills of {trials} batches")
