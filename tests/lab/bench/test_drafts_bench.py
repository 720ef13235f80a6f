"""The bench of drafts: its texts are of their kind, its arms write them, and pairs are compared."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentrt.base.cpu_cores import cores
from agentrt.cli.main import answer
from agentrt.lab.arms.recorded_arm import RecordedArm
from agentrt.lab.bench.drafts.measure import arm_of
from agentrt.lab.bench.drafts.points import DraftsPoint, points_of
from agentrt.lab.bench.drafts.result import DraftsSample, PointPairs, to_json
from agentrt.lab.bench.drafts.texts import TEXT_KINDS, TextKind, questions_of, texts_of
from agentrt.lab.bench.flags import DraftsFlags
from agentrt.lab.checkpoints.checkpoint import checkpoint
from agentrt.lab.checkpoints.shapes import shape_named

WORDS = range(300, 512)
MICRO = [
    *("bench", "drafts", "--shape", "micro", "--kernels", "torch", "--threads", "1"),
    *("--batch", "2", "--prompt", "48", "--new", "40", "--dtype", "float32", "--quick"),
]


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One for all tests: the checkpoint is written once, and held to transformers once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def texts(kind: TextKind, round_number: int = 0, batch: int = 3) -> Any:
    return texts_of(
        kind,
        words=WORDS,
        batch=batch,
        prompt_tokens=96,
        output_tokens=80,
        round_number=round_number,
    )


def trigrams(ids: list[int]) -> set[tuple[int, ...]]:
    return {tuple(ids[at : at + 3]) for at in range(len(ids) - 2)}


@pytest.mark.parametrize("kind", TEXT_KINDS)
def test_texts_have_their_lengths_and_differ_by_round(kind: TextKind) -> None:
    found, later = texts(kind), texts(kind, round_number=1)
    assert [len(one) for one in found.prompts] == [96] * 3
    assert [len(one) for one in found.outputs] == [80] * 3
    assert found == texts(kind)
    assert not any(one in later.prompts for one in found.prompts)
    assert not any(one in later.outputs for one in found.outputs)
    assert {token for one in found.outputs for token in one} <= set(WORDS)


def test_a_copy_is_mostly_its_prompt_and_a_new_text_never() -> None:
    for kind, least, most in (("copy", 0.6, 1.0), ("new", 0.0, 0.0), ("form", 0.0, 0.1)):
        found = texts(kind)  # type: ignore[arg-type]
        for prompt, output in zip(found.prompts, found.outputs, strict=True):
            known = trigrams(prompt)
            share = sum(one in known for one in trigrams(output)) / len(trigrams(output))
            assert least <= share <= most
    for one in texts("new").outputs:
        assert len(set(one)) == len(one)


def test_texts_of_a_form_share_it_over_rounds() -> None:
    one, other = texts("form").outputs[0], texts("form", round_number=1).outputs[0]
    shared = trigrams(one) & trigrams(other)
    assert 0.4 * len(one) < len(shared) < 0.95 * len(one)


def test_questions_differ() -> None:
    asked = questions_of(16 * 12)
    assert len(set(asked)) == len(asked)
    assert questions_of(5) == asked[:5]
    with pytest.raises(ValueError, match="300 questions"):
        questions_of(301)


@pytest.mark.parametrize("speculate_tokens", ["off", 7])
def test_an_arm_writes_recorded_texts(speculate_tokens: object) -> None:
    """The model has random weights; without the record it writes something else."""
    arm = RecordedArm()
    arm.open(
        {
            "model_path": str(checkpoint(shape_named("micro"))),
            "dtype": "float32",
            "kernels": "torch",
            "threads": 1,
            "kv_pages": 64,
            "speculate_tokens": speculate_tokens,
        }
    )
    found = texts("copy", batch=2)
    told = arm.replay(found.prompts, found.outputs)  # which compares what was written
    assert told["tokens"] == 2 * 79  # the first ones come with the prompts
    if speculate_tokens == "off":
        assert told["steps"] == 79
        assert told["rows"] == told["tokens"]
        assert told["accepted"] == {}
    else:
        assert 0.0 < told["decode_s"] <= told["seconds"]
        assert told["accepted"]["prompt"] > 60
        assert told["steps"] < 60
    plain = arm.round(found.prompts, 80, 0, ignore_eos=True)
    assert plain["outputs"] != found.outputs


def sample(seconds: float, accepted: int = 0) -> DraftsSample:
    return DraftsSample(
        seconds=seconds,
        tokens=100,
        steps=100 - accepted,
        rows=100 + accepted,
        accepted={"prompt": accepted} if accepted else {},
        rejected={},
        output_hash="x",
        prefill_s=0.1 * seconds,
        decode_s=0.5 * seconds,
        cpu_s=seconds + accepted / 10,
    )


def test_the_arm_with_drafts_computes_as_the_one_before() -> None:
    """With threads chosen anew the choices would be compared, in place of drafts."""
    flags = DraftsFlags(shape="micro", text="new", batch="1", prompt=48, new=40)
    flags = replace(flags, draft_model=Path("small"))
    (point,) = points_of(flags)
    off, on = (arm_of(point, flags, name).settings for name in ("off", "on"))
    assert (off["known_threads"], on["known_threads"]) == (False, True)
    assert ("draft_model" in off, on["draft_model"]) == (False, str(Path("small").resolve()))


@pytest.mark.skipif(cores() == 1, reason="with one core there is nothing to choose")
def test_known_threads_are_those_of_the_arm_before() -> None:
    settings = {"model_path": str(checkpoint(shape_named("micro"))), "kernels": "torch"}
    first = RecordedArm().open(settings)["threads"]
    (file,) = (Path(os.environ["XDG_CACHE_HOME"]) / "agentrt" / "threads").glob("*.json")
    file.write_text(json.dumps({**first, "reason": "of the arm before"}), "utf-8")
    second = RecordedArm().open({**settings, "known_threads": True})["threads"]
    assert second["reason"] == "of the arm before"
    assert RecordedArm().open(settings)["threads"] == first


def test_arms_are_compared_in_pairs() -> None:
    """Each round is as slow as it likes; drafts take half its time."""
    off = [sample(one) for one in (1.0, 9.0, 3.0)]
    on = [sample(one / 2, accepted=50) for one in (1.0, 9.0, 3.0)]
    pairs = PointPairs(point=DraftsPoint("micro", "copy", 1, "float32"), off=off, on=on)
    assert pairs.ratio.value == pairs.ratio.low == pairs.ratio.high == 0.5
    assert pairs.figures["on"]["tokens_a_step"] == 2.0
    assert pairs.figures["off"]["tokens_a_step"] == 1.0
    assert pairs.figures["on"]["accepted"] == {"prompt": 150}
    parts = [pairs.figures["off"][name] for name in ("prefill_ms", "decode_ms", "other_ms")]
    assert parts == pytest.approx([13 / 3, 65 / 3, 52 / 3])
    assert pairs.figures["cpu_ratio"] == pytest.approx((13 / 2 + 15) / 13)
    (row,) = to_json([pairs], "auto")["rows"]
    assert [one["seconds"] for one in row["samples"]["on"]] == [0.5, 4.5, 1.5]


@pytest.mark.slow
def test_the_bench_prints_a_table_and_writes_every_sample(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out" / "drafts.json"
    assert answer([*MICRO, "--json", str(path)]) == 0
    told = capsys.readouterr().out
    found = json.loads(path.read_text("utf-8"))
    assert [row["text"] for row in found["rows"]] == list(TEXT_KINDS)
    for row in found["rows"]:
        assert f"micro {row['text']} B=2 float32" in told
        assert [len(samples) for samples in row["samples"].values()] == [2, 2]
        for one, other in zip(row["samples"]["off"], row["samples"]["on"], strict=True):
            assert one["output_hash"] == other["output_hash"]
            assert one["tokens"] == one["rows"]
            assert 0.0 < one["decode_s"] <= one["seconds"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--shape", "huge"], "there is no shape 'huge'"),
        (["--text", "prose"], "--text prose is not known"),
        (["--batch", "100", "--shape", "embedded"], "1200 questions are more than the 300"),
        (["--shape", "tiny", "--prompt", "7500"], "different words are more than"),
        (["--shape", "embedded", "--programs", "none"], "there is no none/finance.py"),
        (["--shape", "micro", "--prompt", "300"], "different words are more than"),
        (["--draft-model", "none"], "--draft-model none: there is no such folder"),
    ],
)
def test_a_wrong_flag_is_told(
    flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(["bench", "drafts", *flags]) == 2
    assert said in capsys.readouterr().err
