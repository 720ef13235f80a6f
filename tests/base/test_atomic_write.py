"""Atomic writes: a file is as it was or whole, has its mode, and nothing is left beside it."""

import os
import stat
from pathlib import Path

import pytest

from agentrt.base.atomic_write import atomic_write, write_atomically


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_takes_the_place_of_another_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    with atomic_write(path) as file:
        file.write(b"after")
        file.flush()
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    assert os.listdir(tmp_path) == ["file"]


def test_a_write_that_fails_leaves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")

    def write_half() -> None:
        with atomic_write(path) as file:
            file.write(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        write_half()
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["file"]


def test_what_cannot_be_replaced_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder" / "full").mkdir(parents=True)
    with pytest.raises(OSError, match="folder"):
        write_atomically(tmp_path / "folder", b"content")
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "absent" / "file", b"content")
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.parametrize(("umask", "given", "found"), [(0, 0o600, 0o600), (0o77, 0o640, 0o640)])
def test_a_mode_holds_whatever_the_umask_says(
    tmp_path: Path, umask: int, given: int, found: int
) -> None:
    before = os.umask(umask)
    try:
        with atomic_write(tmp_path / "file", mode=given):
            [draft] = tmp_path.iterdir()
            assert mode(draft) == found, "no content is readable by others meanwhile"
    finally:
        os.umask(before)
    assert mode(tmp_path / "file") == found


def test_without_a_mode_the_umask_decides(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "file", b"")
    finally:
        os.umask(before)
    assert mode(tmp_path / "file") == 0o640


def test_a_durable_write_syncs_the_content_before_its_name_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, sync = tmp_path / "file", os.fsync
    synced: list[tuple[bool, bool, int]] = []

    def fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        synced.append((stat.S_ISDIR(status.st_mode), path.exists(), status.st_size))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(path, b"content")
    assert synced == []
    path.unlink()
    write_atomically(path, b"content", is_durable=True)
    (file, folder) = synced
    assert file == (False, False, len(b"content"))
    assert folder[:2] == (True, True)


def test_a_link_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("kept")
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert (link.is_symlink(), link.read_text(), target.read_text()) == (False, "new", "kept")


def test_a_name_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    path = tmp_path / ("n" * os.pathconf(tmp_path, "PC_NAME_MAX"))
    write_atomically(path, b"content")
    assert path.read_bytes() == b"content"
