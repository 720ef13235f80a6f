"""`agentrt quantize`: what it says, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentrt import embedded
from agentrt.base.clock import FakeClock
from agentrt.cli.quantize import progress_lines

pytestmark = pytest.mark.model

TEXT = "The price of KO rose by 3 percent, and that of IBM fell by 2 in the same month. " * 40
GPTQ = ["--method", "gptq", "--calibrate", "some.txt"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "some.txt"
    path.write_text(TEXT)
    return path


def test_it_says_what_was_written_and_how_far_it_is(
    inside: Callable[..., Any], tmp_path: Path, text: Path
) -> None:
    words = ("quantize", "embedded", "--method", "int8", "--out", "small", "--held-out", str(text))
    told = inside(*words, "--sequences", "1", "--keep", "layers.0.mlp.*")
    assert told.code == 0, told.err
    first, second = told.out.splitlines()
    assert first == "small: 39 matrices rounded, 3 kept; 1.7 MB of 2.8 MB"
    assert second.startswith("KL divergence 0.0")
    assert second.endswith("%")
    assert (tmp_path / "small" / "config.json").is_file()


def test_json_has_the_same(inside: Callable[..., Any], text: Path) -> None:
    words = ("quantize", str(embedded.path()), "--method", "gptq", "--calibrate", str(text))
    told = inside(*words, "--out", "small", "--sequences", "1", "--json", "-q")
    assert told.code == 0, told.err
    assert told.err == ""
    assert told.json["method"] == "gptq"
    assert told.json["rounded"] == 42
    assert told.json["kl_nats"] is None
    assert told.json["written_bytes"] < 0.4 * told.json["source_bytes"]


def test_a_short_file_is_noted(inside: Callable[..., Any], tmp_path: Path, text: Path) -> None:
    (tmp_path / "short.txt").write_text("Hello, you.")
    notes = {}
    for name in ("short.txt", "some.txt"):
        told = inside(*quick_words("--method", "gptq", "--calibrate", name), "--out", f"{name}.out")
        assert told.code == 0, told.err
        notes[name] = [line for line in told.err.splitlines() if line.startswith("note: ")]
    assert notes["some.txt"] == []
    (note,) = notes["short.txt"]
    assert note.startswith("note: --calibrate short.txt has ")
    assert note.endswith(" tokens, which tell little: give some pages")


def quick_words(*words: str) -> list[str]:
    return ["quantize", "embedded", "--out", "small", *words]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--method", "int3"], "--method int3 is none"),
        (["--method", "gptq"], "--method gptq looks at activations"),
        ([*GPTQ, "--damping", "inf"], "--damping inf is no share"),
        ([*GPTQ, "--damping", "NaN"], "--damping nan is no share"),
        ([*GPTQ, "--damping", "1e300"], "--damping 1e+300 is no share"),
        ([*GPTQ, "--damping", "-0.1"], "--damping -0.1 is no share"),
        (["--method", "int4", "--damping", "0.5"], "--damping is a setting of gptq, not of int4"),
        (["--method", "fp8", "--no-act-order"], "--act-order is a setting of gptq, not of fp8"),
        (["--method", "int4", "--sequences", f"{10**30}"], "--sequences"),
        (["--method", "int4", "--length", "1"], "--length"),
        (["--method", "int4", "--group", "-1"], "--group"),
        (["--method", "int4", "--out", "some.txt/small"], "some.txt is no folder"),
        (["--method", "int4", "--calibrate", "some.txt"], "--method int4 looks at no activations"),
        (["--method", "awq", "--calibrate", "none.txt"], "none.txt cannot be read"),
        (["--method", "int4", "--group", "100"], "128 inputs, which groups of 100 do not divide"),
        (["--method", "int4", "--keep", "layers.7.*"], "--keep layers.7.* fits no matrix"),
        (["--method", "awq", "--calibrate", "bad.jsonl"], "bad.jsonl:1 is not JSON"),
    ],
)
def test_mistakes_are_named_before_anything_is_written(
    words: list[str], reason: str, inside: Callable[..., Any], tmp_path: Path, text: Path
) -> None:
    (tmp_path / "bad.jsonl").write_text("{\n")
    told = inside(*quick_words(*words))
    assert told.code == 2
    assert reason in told.lines[0]
    assert not (tmp_path / "small").exists()


def test_a_directory_that_exists_is_refused(inside: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    told = inside(*quick_words("--method", "int4"))
    assert told.code == 2
    assert "small exists" in told.lines[0]


def test_no_model_is_one_error(inside: Callable[..., Any], tmp_path: Path) -> None:
    told = inside("quantize", "nowhere", "--method", "int4", "--out", "small")
    assert told.code == 3
    assert "nowhere is not a directory" in told.lines[0]


def test_long_work_tells_its_rate_and_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    clock = FakeClock()
    tell = progress_lines("matrices", clock.now_s)
    for done in range(1, 31):
        clock.advance(2.0)
        tell(done, 120)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "3/120 matrices, 30.0 a minute, about 4 min left"
    assert len(lines) == 10
