"""Files that commands write: whole or not at all, and nothing that is there is lost."""

import os
import stat
from pathlib import Path

import pytest

from agentrt.base.errors import UsageError
from agentrt.base.output_file import check_output, write_output


def test_a_file_is_written_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    path.chmod(0o640)
    write_output(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    write_output(path, "own", private=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["out.json"]


def test_a_link_stays_one(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.touch()
    link.symlink_to(target)
    write_output(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_what_is_no_file_is_written_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_output(pipe, "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_full_disk_is_one_error_and_leaves_the_file(tmp_path: Path) -> None:
    link = tmp_path / "full"
    link.symlink_to("/dev/full")
    with pytest.raises(UsageError, match=r"full cannot be written: No space left on device"):
        write_output(link, "text")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    path = tmp_path / "absent" / "out"
    with pytest.raises(UsageError, match=r"out cannot be written: No such file"):
        write_output(path, "text")


@pytest.mark.parametrize(
    ("given", "makes_folders", "what"),
    [
        (".", False, "is a folder"),
        ("a/b", False, "there is no folder .*a"),
        ("file/b", False, ".*file is no folder"),
        ("file/b/c", True, ".*file is no folder"),
    ],
)
def test_what_cannot_be_written_is_found_before_the_work(
    tmp_path: Path, given: str, makes_folders: bool, what: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=f"--out .*: {what}"):
        check_output(tmp_path / given, "--out", makes_folders=makes_folders)


def test_a_folder_that_is_made_with_the_file(tmp_path: Path) -> None:
    check_output(tmp_path / "a" / "b" / "out", "--out", makes_folders=True)
    check_output(Path("/dev/full"), "--out")


def test_a_file_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # whoever runs the tests may all
    with pytest.raises(UsageError, match="may not be written"):
        check_output(tmp_path / "out", "--out")
