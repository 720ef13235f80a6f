"""Results reach standard output whole, whatever each of the three streams is."""

import itertools
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Literal

import pytest

from tests.cli.conftest import environment

Kind = Literal["terminal", "pipe", "file"]
KINDS: tuple[Kind, ...] = ("terminal", "pipe", "file")
ESCAPE = b"\x1b"
RESULTS = [{"n": n, "text": "naïve " + "x" * 2000} for n in range(4)]
JOB = """
import sys
from agentrt import program, tool


@tool(effects="read")
def read(n: int) -> int:
    sys.stdout.write(f"printed by a tool {n}\\n")  # whole: print writes in parts
    return n


@program
async def job(n: int = 0) -> dict[str, object]:
    sys.stdout.write(f"printed by a program {n}\\n")
    sys.stderr.write("an error\\n")
    return {"n": await read(n), "text": "naïve " + "x" * 2000}
"""
ALL = list(itertools.product(KINDS, KINDS, KINDS, ("one", "batch")))
PAIRS = [  # each two of the four stand together in each way
    (KINDS[a], KINDS[b], KINDS[(a + b) % 3], ("one", "batch")[(a + 2 * b) % 2])
    for a, b in itertools.product(range(3), repeat=2)
]


class Stream:
    """One standard stream, and what went through it.

    Args:
        kind: What it is.
        file: Path of its file.
        read: Whether the process reads it.
    """

    def __init__(self, kind: Kind, file: Path, *, read: bool = False) -> None:
        self._file, self._read = file if kind == "file" else None, read
        self._chunks: list[bytes] = []
        self._ours = -1
        if kind == "file":
            file.touch()
            self.theirs = os.open(file, os.O_RDONLY if read else os.O_WRONLY)
        elif kind == "terminal":
            self._ours, self.theirs = pty.openpty()
        else:
            ends = os.pipe()
            self._ours, self.theirs = reversed(ends) if read else ends
        self._reader = Thread(target=self._collect, daemon=True)

    def started(self) -> None:
        """Collect what comes: the process has its end."""
        os.close(self.theirs)
        if self._ours >= 0 and not self._read:
            self._reader.start()

    def close(self) -> bytes:
        """What came, with the line ends of a file."""
        if self._file is not None:
            return self._file.read_bytes()
        if not self._read:
            self._reader.join(timeout=60)
        os.close(self._ours)
        return b"".join(self._chunks).replace(b"\r\n", b"\n")

    def _collect(self) -> None:
        try:
            while chunk := os.read(self._ours, 65536):
                self._chunks.append(chunk)
        except OSError:  # the other side of a terminal is closed
            pass


def check(folder: Path, url: str, kinds: tuple[Kind, Kind, Kind], mode: str) -> None:
    """Run a program, and look at both outputs."""
    (folder / "job.py").write_text(JOB, "utf-8")
    (folder / "in.jsonl").write_text("".join(f'{{"n": {one["n"]}}}\n' for one in RESULTS))
    engine = ("--engine", url, "--model", "tiny", "--trace", "off")
    command = [sys.executable, "-m", "agentrt", "run", *engine, "job.py"]
    command += ["--batch", "in.jsonl"] if mode == "batch" else []
    env = {k: v for k, v in environment().items() if k != "CI"} | {"TERM": "xterm"}
    stdin, stdout, stderr = (
        Stream(kind, folder / f"stream{number}", read=number == 0)
        for number, kind in enumerate(kinds)
    )
    with subprocess.Popen(
        command,
        cwd=folder,
        env=env | {"PYTHONIOENCODING": "utf-8"},
        stdin=stdin.theirs,
        stdout=stdout.theirs,
        stderr=stderr.theirs,
    ) as process:
        for stream in (stdin, stdout, stderr):
            stream.started()
        try:
            code = process.wait(timeout=120)
        finally:
            process.kill()
    _, out, err = stdin.close(), stdout.close(), stderr.close()
    assert code == 0, err
    assert ESCAPE not in out
    if mode == "batch":
        assert [json.loads(line) for line in out.decode().splitlines()] == RESULTS
        numbers = range(len(RESULTS))
    else:
        assert json.loads(out) == RESULTS[0]
        assert len(out.splitlines()) == (4 if kinds[1] == "terminal" else 1)
        numbers = range(1)
    assert (ESCAPE in err) is (kinds[2] == "terminal")
    for number in numbers:
        assert b"printed by a tool %d" % number in err
        assert b"printed by a program %d" % number in err
    assert err.count(b"an error") == len(numbers)
    assert b"xxx" not in err


def test_pairs_cover_each_two_kinds() -> None:
    for a, b in itertools.combinations(range(3), 2):
        assert len({(one[a], one[b]) for one in PAIRS}) == 9
    assert {(one[2], one[3]) for one in PAIRS} == set(itertools.product(KINDS, ("one", "batch")))


@pytest.mark.parametrize("case", PAIRS, ids="-".join)
def test_results_arrive_whole(
    case: tuple[Kind, Kind, Kind, str], tmp_path: Path, server_url: str
) -> None:
    check(tmp_path, server_url, case[:3], case[3])


@pytest.mark.slow
@pytest.mark.parametrize("case", [one for one in ALL if one not in PAIRS], ids="-".join)
def test_results_arrive_whole_in_every_case(
    case: tuple[Kind, Kind, Kind, str], tmp_path: Path, server_url: str
) -> None:
    check(tmp_path, server_url, case[:3], case[3])
