"""`agentrt compile`: what it says, what starts from it, and what it refuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentrt import embedded

pytestmark = pytest.mark.model


def test_it_says_what_was_written_and_doctor_what_it_is(
    inside: Callable[..., Any], tmp_path: Path
) -> None:
    told = inside("compile", "embedded", "--weights", "int4", "--out", "small")
    assert told.code == 0, told.err
    assert told.out.startswith("small: int4 in float32, 1.8 MB")
    assert told.err.splitlines()[0] == "loading the model as it is"
    found = inside("doctor", "--model", "small")
    assert found.code == 0, found.out
    line = next(one for one in found.out.splitlines() if one.startswith("compiled"))
    assert ", by agentrt " in line
    assert (tmp_path / "small" / "compiled.json").is_file()


def test_a_name_is_found_for_it_and_json_has_the_settings(
    inside: Callable[..., Any], tmp_path: Path
) -> None:
    told = inside("compile", "embedded", "-q", "--json", "--dtype", "bfloat16")
    assert (told.code, told.err) == (0, "")
    assert told.json["out"] == "embedded-compiled"
    assert told.json["settings"]["dtype"] == "bfloat16"
    assert (tmp_path / "embedded-compiled" / "tokenizer.json").is_file()


def test_a_run_from_it_gives_the_same(inside: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(
        "from agentrt import chat, program\n\n\n"
        "@program\n"
        "async def job() -> str:\n"
        "    return await chat().user('Sum 2 and 3.').generate(max_tokens=12)\n"
    )
    assert inside("compile", "embedded", "--weights", "int8", "--out", "small").code == 0
    plain = inside("run", "job.py", "-q", "--weights", "int8")
    compiled = inside("run", "job.py", "-q", "--model", "small")
    assert plain.code == compiled.code == 0, compiled.err
    assert plain.out == compiled.out


def test_a_stale_one_is_one_error_with_the_command(
    inside: Callable[..., Any], tmp_path: Path
) -> None:
    assert inside("compile", "embedded", "--out", "small").code == 0
    file = tmp_path / "small" / "compiled.json"
    found = json.loads(file.read_text())
    found["target"]["version"] = "0.0.1"
    file.write_text(json.dumps(found))
    told = inside("doctor", "--model", "small")
    assert told.code == 3
    assert "is stale: agentrt 0.0.1 compiled it" in told.out
    assert f"Run `agentrt compile {found['source']['path']} --out small`" in told.out


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["embedded", "--dtype", "float16"], 2, "--dtype float16 is none"),
        (["embedded", "--weights", "int3"], 2, "--weights int3 is unknown"),
        (["embedded", "--weight-group", "32"], 2, "--weight-group 32 is for quantised weights"),
        (["embedded", "--out", "mine"], 2, "mine exists, and is no compiled model"),
        (["embedded", "--out", "some.txt/small"], 2, "some.txt is no folder"),
        (["nowhere"], 3, "nowhere is not a directory"),
    ],
)
def test_mistakes_are_named(
    words: list[str], code: int, reason: str, inside: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "some.txt").write_text("some")
    told = inside("compile", *words)
    assert told.code == code
    assert reason in told.lines[0]


def test_a_broken_tokenizer_is_found_before_the_weights_are_packed(
    inside: Callable[..., Any], tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(embedded.path(), broken)
    (broken / "tokenizer.json").write_text("{")
    told = inside("compile", "broken", "--out", "small")
    assert told.code == 3
    assert told.err.startswith("error: ModelInvalid: broken/tokenizer.json is not a tokenizer")
    assert not (tmp_path / "small").exists()
