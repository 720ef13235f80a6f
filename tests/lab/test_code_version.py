"""The hash of the code changes with its sources and with nothing else."""

from pathlib import Path

from agentrt.lab.code_version import code_version, hash_of


def test_sources_count_wherever_they_lie(tmp_path: Path) -> None:
    one, other = (tmp_path / place / "package" for place in ("one", "other"))
    for folder in (one, other):
        (folder / "__pycache__").mkdir(parents=True)
        (folder / "a.py").write_text("x = 1\n")
    (other / "notes.txt").write_text("not code")
    (other / "__pycache__" / "b.py").write_text("no source")
    same = hash_of([one])
    assert hash_of([other]) == same
    (other / "a.py").write_text("x = 2\n")
    assert hash_of([other]) != same
    (other / "a.py").rename(other / "b.py")
    (other / "b.py").write_text("x = 1\n")
    assert hash_of([other]) != same


def test_the_package_has_a_version() -> None:
    assert len(code_version()) == 12
    assert code_version() == code_version()
