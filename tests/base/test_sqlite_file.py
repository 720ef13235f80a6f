"""A broken database is kept under another name, with its log and its index."""

from pathlib import Path

from agentrt.base.sqlite_file import move_aside


def test_a_database_moves_with_what_lies_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "kept.sqlite"
    for part in ("", "-wal"):  # the index may be missing
        (tmp_path / f"kept.sqlite{part}").write_text(f"part {part}")
    (tmp_path / "other").touch()
    aside = move_aside(path)
    assert aside.name.startswith("kept.sqlite.broken-")
    assert aside.read_text() == "part "
    assert aside.with_name(f"{aside.name}-wal").read_text() == "part -wal"
    assert len(list(tmp_path.iterdir())) == 3
