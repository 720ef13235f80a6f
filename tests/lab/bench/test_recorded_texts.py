"""Recorded programs on real engines: what they write, and from where it was guessed."""

import json
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentrt.base.errors import UsageError
from agentrt.cli.main import answer
from agentrt.lab.arms.runtime_arm import RuntimeArm
from agentrt.lab.arms.wire import ProgramLine, ProgramSample
from agentrt.lab.bench.compound.command import check
from agentrt.lab.bench.compound.figures import played
from agentrt.lab.bench.compound.plan import Round, rounds_of_one
from agentrt.lab.bench.compound.recorded_draw import RecordedDraw
from agentrt.lab.bench.compound.recorded_texts import check_recorded
from agentrt.lab.bench.compound.replay_table import write_replay
from agentrt.lab.bench.flags import CompoundFlags
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.shapes import SHAPES
from agentrt.lab.errors import BenchFailed
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.sizes import SIZES
from agentrt.lab.workloads.text import words_of

DATA = Path(__file__).parent.parent / "recorded" / "data"
FAST = Scale(time=0.001)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(SHAPES["micro"], folder=tmp_path_factory.mktemp("model"))


def draw(model: Path, window_tokens: int = 4096) -> RecordedDraw:
    words = words_of(model / "tokenizer.json")
    return RecordedDraw(DATA, words, window_tokens, scale=FAST, sizes=SIZES, seed=0)


def rounds_of(model: Path, shape: str, plays: int = 1) -> list[Round]:
    return rounds_of_one([shape], plays, 1, draw(model))


def samples(
    model: Path, lines: list[ProgramLine], table: Path, **engine: Any
) -> list[ProgramSample]:
    """Programs played one after the other by our arm, on an engine that writes the table."""
    settings = {"model_path": str(model), "dtype": "float32", "kv_pages": 512, "threads": 1}
    settings |= {"replay": str(table), "speculate_tokens": 4, **engine}

    async def play() -> list[ProgramSample]:
        async with AsyncExitStack() as stack:
            arm = RuntimeArm(stack)
            await arm.open({"engine": settings, "scheduler": {}})
            return [(await arm.play([line]))["samples"][0] for line in lines]

    return anyio.run(play)


@pytest.mark.parametrize("shape", ["extraction", "finance", "tree-of-thought"])
def test_our_engine_writes_what_was_recorded(shape: str, model: Path, tmp_path: Path) -> None:
    lines = [line for one in rounds_of(model, shape) for line in one.lines("ours")]
    write_replay(tmp_path / "table.jsonl", model, lines)
    for line, sample in zip(lines, samples(model, lines, tmp_path / "table.jsonl"), strict=True):
        assert played(line, sample, arm="ours").output_tokens  # raises for another text


def test_a_text_that_is_not_the_recorded_one_is_no_play(model: Path, tmp_path: Path) -> None:
    (line,) = rounds_of(model, "extraction")[0].lines("ours")
    write_replay(tmp_path / "table.jsonl", model, rounds_of(model, "extraction")[0].lines("other"))
    (sample,) = samples(model, [line], tmp_path / "table.jsonl")
    with pytest.raises(BenchFailed, match="did not put out its recorded text"):
        played(line, sample, arm="ours")


def test_a_server_guesses_from_a_request_alone(model: Path, tmp_path: Path) -> None:
    """Answers of one call site are alike; an engine that knows no call sites cannot use that."""
    lines = [line for one in rounds_of(model, "classification") for line in one.lines("ours")]
    table = tmp_path / "table.jsonl"
    write_replay(table, model, lines)

    def sources(**engine: str) -> set[str]:
        found = zip(lines, samples(model, lines, table, **engine), strict=True)
        one = [played(line, sample, arm="ours") for line, sample in found]
        return {source for program in one for source, tokens in program.drafts.items() if tokens}

    assert sources() >= {"site", "prompt"}
    assert sources(draft_texts="own") == {"prompt"}


def test_call_sites_have_written_what_warms_up(model: Path, tmp_path: Path) -> None:
    rounds = rounds_of_one(["finance"], 1, 1, draw(model), warmups=2)
    lines = [line for one in rounds for line in one.lines("ours")]
    write_replay(tmp_path / "table.jsonl", model, lines)

    def guessed(played_lines: list[ProgramLine]) -> int:
        last = samples(model, played_lines, tmp_path / "table.jsonl")[-1]
        return played(lines[-1], last, arm="ours").drafts.get("site", 0)

    assert guessed(lines) > guessed(lines[-1:]) == 0


def test_records_that_do_not_fit_or_are_not_there_are_told(model: Path) -> None:
    with pytest.raises(UsageError, match="0 recorded programs of classification that fit 64"):
        draw(model, 64).one("classification", 0)
    with pytest.raises(UsageError, match="4 recorded programs of extraction"):
        draw(model).one("extraction", 4)
    with pytest.raises(UsageError, match="debate has no recorded text"):
        draw(model).one("debate", 0)


def test_what_does_not_go_with_recorded_texts_is_told() -> None:
    asked = CompoundFlags(shape="micro", shapes="extraction", texts="recorded", data=DATA)
    check(replace(asked, arms="agentrt,agentrt:plain,asyncio+ours,asyncio+ours-drafts"))
    for change, complaint in (
        ({"texts": "spoken"}, "--texts spoken"),
        ({"shapes": "extraction,debate"}, "debate: no text is recorded"),
        ({"data": None}, "--data"),
        ({"load": "open"}, "no load"),
        ({"without": "drafts"}, "no ablation"),
        ({"texts": "drawn", "load": "open", "warmups": 2}, "--warmups are for --load one"),
    ):
        with pytest.raises(UsageError, match=complaint):
            check(replace(asked, **change))
    with pytest.raises(UsageError, match=r"no text to the engine of asyncio\+vllm"):
        check_recorded(replace(asked, arms="agentrt,langgraph+ours,asyncio+vllm"), ["extraction"])


@pytest.mark.slow
def test_our_arm_and_our_server_play_recorded_programs(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    command = ["bench", "compound", "--shape", "micro", "--texts", "recorded", "--data", str(DATA)]
    command += ["--shapes", "extraction,classification", "--drafts", "--quick", "--threads", "1"]
    command += ["--arms", "agentrt,agentrt:plain,asyncio+ours-drafts", "--json", str(found)]
    assert answer(command) == 0
    told = json.loads(found.read_text("utf-8"))
    assert str(tmp_path) not in found.read_text("utf-8")
    ours, plain, served = told["arms"]
    assert [ours["name"], plain["name"], served["name"]] == [
        *("agentrt", "agentrt:plain", "asyncio+ours-drafts"),
    ]
    for label in ("extraction", "classification"):
        works = [arm["figures"][label]["work"] for arm in (ours, plain, served)]
        assert len({work["output_tokens"] for work in works}) == 1
        guessed = [work["drafted_tokens"] for work in works]
        assert guessed[1] == 0
        assert None not in guessed  # our server tells; how many pay depends on the machine
        gap = told["ceilings"]["asyncio+ours-drafts"][label]
        assert gap["ceiling"]["value"] >= gap["ceiling_with_guesses"]["value"] > 0
    again = [*command[:-2], "--scale", "small", "--json", str(found)]
    assert answer(again) == 2
