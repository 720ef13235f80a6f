"""`agentrt init`: a folder that works at once, and that overwrites nothing."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def test_its_test_passes_at_once_and_nothing_is_found(
    inside: Callable[..., Any], tmp_path: Path
) -> None:
    told = inside("init", "shop")
    assert (told.code, told.out) == (0, "")
    assert "cd shop\npytest\n" in told.err
    names = {path.name for path in (tmp_path / "shop").iterdir()}
    assert names == {"README.md", "agentrt.toml", "orders.py", "stock.py", "test_orders.py"}
    assert len((tmp_path / "shop" / "README.md").read_text().splitlines()) == 5
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=tmp_path / "shop",
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), *sys.path))},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_its_files_are_in_the_style_of_the_examples(
    inside: Callable[..., Any], tmp_path: Path
) -> None:
    inside("init", "shop")
    shop = str(tmp_path / "shop")
    for words in (["check", "--select", "E,F,I,UP"], ["format", "--check"]):
        config = ["--config", str(ROOT / "pyproject.toml")]
        ruff = [sys.executable, "-m", "ruff", *words, *config, "--no-cache", shop]
        done = subprocess.run(ruff, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout


@pytest.mark.model
def test_its_program_answers_on_the_embedded_engine(
    inside: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside("init", "shop")
    monkeypatch.chdir(tmp_path / "shop")
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert inside("check", "orders.py").out == "orders.py: nothing was found\n"
    told = inside("run", "orders.py", "--text", "Mara Lindt, Oslo: 3 desk lamps.")
    assert told.code == 0, told.err
    assert told.json["order"]["quantity"] == 3
    assert told.json["sent_now"] == 2


@pytest.mark.parametrize("name", ["notes.txt", ".hidden"])
def test_a_folder_that_is_not_empty_is_refused(
    inside: Callable[..., Any], tmp_path: Path, name: str
) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / name).write_text("mine")
    told = inside("init", "shop")
    assert told.code == 2
    assert told.lines[0] == f"error: UsageError: shop is not empty: it has {name}"
    assert [path.name for path in (tmp_path / "shop").iterdir()] == [name]


def test_a_repository_without_files_is_empty(inside: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    assert inside("init", "shop").code == 0


def test_a_file_is_no_folder(inside: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "shop").write_text("mine")
    told = inside("init", "shop")
    assert told.code == 2
    assert "shop is no folder" in told.lines[0]
    told = inside("init", "shop/below")
    assert told.code == 2
    assert "cannot be written" in told.lines[0]
