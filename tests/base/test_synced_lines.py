"""Lines of a file that one process writes: replaced whole, under its lock and with its mode."""

import os
import stat
from pathlib import Path

import pytest

from agentrt.base.synced_lines import SyncedLines


def test_lines_that_are_replaced_stay_locked_and_keep_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text("one\ntwo\ncut")
    path.chmod(0o640)
    lines = SyncedLines(path)
    lines.replace(["one", "other"])
    with pytest.raises(BlockingIOError):
        SyncedLines(path)
    lines.append("three")
    lines.close()
    again = SyncedLines(path)
    assert (again.read(), again.cut_off) == (["one", "other", "three"], b"")
    again.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["rows"]


def test_lines_stay_where_they_cannot_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows"
    path.write_text("one\n")
    lines = SyncedLines(path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            lines.replace(["other"])
    lines.append("two")
    lines.close()
    assert path.read_text() == "one\ntwo\n"
    assert os.listdir(tmp_path) == ["rows"]
