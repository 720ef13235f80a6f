"""`FILE[:fn]` names a program."""

from pathlib import Path

import pytest

from agentrt.base.errors import UsageError
from agentrt.cli import target


@pytest.mark.parametrize(
    ("typed", "file", "name"),
    [
        ("a/b.py", "a/b.py", ""),
        ("a/b.py:go", "a/b.py", "go"),
        ("a:b", "a:b", ""),
    ],
)
def test_split(typed: str, file: str, name: str) -> None:
    assert target.split(typed) == (Path(file), name)


def test_a_missing_file_names_the_one_that_was_meant(tmp_path: Path) -> None:
    (tmp_path / "finance.py").write_text("")
    with pytest.raises(UsageError, match="there is no file") as caught:
        target.load(tmp_path / "finanse.py")
    assert caught.value.hint == f"did you mean {tmp_path / 'finance.py'}?"


def test_a_file_runs_with_its_folder_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_loaded.py").write_text("VALUE = 7\n")
    (tmp_path / "loaded_once.py").write_text("from neighbour_of_loaded import VALUE\n")
    assert target.load(tmp_path / "loaded_once.py").VALUE == 7


def test_what_a_file_raises_passes_through(tmp_path: Path) -> None:
    (tmp_path / "broken_file.py").write_text("1/0\n")
    with pytest.raises(ZeroDivisionError):
        target.load(tmp_path / "broken_file.py")


def test_names_are_offered_nearest_first() -> None:
    offered = target.choices(Path("p.py"), "voet", ["tree", "vote"])
    assert offered == "p.py:vote, p.py:tree"
