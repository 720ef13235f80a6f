"""What the shell completes: programs of a file, past runs, engines; no file of a user is run."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agentrt.cli.completion import program_names, programs_in
from agentrt.cli.main import answer

TWO = """
raise SystemExit("a file must not be run for completion")
import agentrt

@agentrt.program
async def first(x: int) -> int: ...

@agentrt.program(deadline=3.0)
async def second(x: int) -> int: ...

async def neither(x: int) -> int: ...

@other
async def nor_this(x: int) -> int: ...
"""
ENGINES = '[engines.local]\nkind = "vllm"\naddress = "http://127.0.0.1:1"\nmodel = "m"\n'


@pytest.fixture
def completed(
    folder_here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[str]]:
    """Completes the last of some words, as bash asks for it."""

    def complete(*words: str) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", " ".join(("agentrt", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        monkeypatch.setenv("_AGENTRT_COMPLETE", "complete_bash")
        with pytest.raises(SystemExit, match="0"):
            answer([])
        return capsys.readouterr().out.split()

    return complete


def test_programs_of_a_file_are_read_not_run(tmp_path: Path) -> None:
    (tmp_path / "two.py").write_text(TWO)
    assert programs_in(tmp_path / "two.py") == ["first", "second"]
    (tmp_path / "broken.py").write_text("def (")
    for name in ("broken.py", "absent.py", "."):
        assert programs_in(tmp_path / name) == []


def test_a_file_with_several_programs_offers_them(folder_here: Path) -> None:
    Path("two.py").write_text(TWO)
    assert program_names("two.py") == ["two.py", "two.py:first", "two.py:second"]
    assert program_names("two.py:s") == ["two.py:second"]
    assert program_names("tw") == []  # files are left to the shell
    Path("one.py").write_text(TWO.replace("@agentrt.program(deadline=3.0)", ""))
    assert program_names("one.py") == []


@pytest.mark.parametrize("command", ["run", "graph", "check"])
def test_bash_completes_behind_a_colon(completed: Callable[..., list[str]], command: str) -> None:
    """It splits the word there, and replaces what is behind the colon."""
    Path("two.py").write_text(TWO)
    assert completed(command, "two.py", ":") == ["first", "second"]
    assert completed(command, "two.py", ":", "se") == ["second"]


def test_flags_of_a_program_are_read_from_its_text(completed: Callable[..., list[str]]) -> None:
    Path("two.py").write_text(
        TWO + "@agentrt.program\nasync def two(text: str, *, is_dry: bool = True) -> str: ...\n"
    )
    assert completed("run", "two.py", "--te") == ["--tenant", "--text"]
    assert completed("run", "two.py", "--is") == ["--is-dry"]
    assert completed("run", "two.py", ":", "first", "--x") == ["--x"]
    assert completed("run", "absent.py", "--tex") == []


def test_past_runs(completed: Callable[..., list[str]]) -> None:
    folder = Path("traces/runs")
    folder.mkdir()
    sample = Path(__file__).parents[2] / "traces" / "finance.json"
    shutil.copy(sample, folder / f"20260101T000000.000Z-finance-{'a' * 32}.json")
    (run_id,) = (word for word in completed("trace", "show", "") if word != "last")
    assert run_id in sample.read_text()
    for words in (("trace", "diff", run_id[:4]), ("trace", "open", run_id[:4])):
        assert completed(*words) == [run_id]
    assert completed("graph", "--run", "la") == ["last"]
    assert completed("trace", "export", "xyz") == []


def test_engines(completed: Callable[..., list[str]]) -> None:
    Path("agentrt.toml").write_text(ENGINES)
    for command in ("run", "doctor"):
        assert completed(command, "--engine", "lo") == ["local"]
    assert completed("fleet", "status", "--engine", "e") == ["embedded"]
    Path("agentrt.toml").write_text("engines = 3")
    assert completed("run", "--engine", "lo") == []


def test_commands(completed: Callable[..., list[str]]) -> None:
    assert completed("tr") == ["trace"]
    assert completed("trace", "") == ["ls", "show", "diff", "open", "export", "report"]


def test_outside_of_completion_its_variables_are_no_matter(
    folder_here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMP_WORDS", "agentrt run a.py :")
    monkeypatch.setenv("COMP_CWORD", "none")
    assert answer(["--version"]) == 0
