"""Traces and what is learned are for their owner alone, whatever the umask says."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentrt.analysis import RunRecord
from agentrt.base.private_files import make_private_file, make_private_folder
from agentrt.telemetry import build
from agentrt.telemetry.jaeger_file import JaegerFile
from tests.oracles.random_runs import play
from tests.telemetry.conftest import FINANCE


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_new_folders_are_private_and_old_ones_are_left(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_private_folder(tmp_path / "a" / "b")
    assert [mode(tmp_path / part) for part in ("", "a", "a/b")] == [0o755, 0o700, 0o700]


def test_a_file_of_before_becomes_private(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("kept")
    make_private_file(path)
    assert (mode(path), path.read_text()) == (0o600, "kept")


def test_traces_are_private(tmp_path: Path) -> None:
    record = RunRecord()
    record.on_events(play(FINANCE))
    path = JaegerFile(tmp_path / "traces" / "runs").export([build(record)])
    assert mode(path) == 0o600
    assert [mode(path.parent), mode(path.parent.parent)] == [0o700, 0o700]
