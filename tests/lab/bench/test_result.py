"""Ratios, checks and the file of a sweep, over samples that were not measured."""

import json

import pytest

from agentrt.lab.arms.arm_process import Arm
from agentrt.lab.bench.engine.points import SweepPoint
from agentrt.lab.bench.engine.result import ArmResult, PointResult, ratio_of_rounds, to_json
from agentrt.lab.bench.engine.sample import Sample, check_equal_work, sample_from
from agentrt.lab.bench.engine.table import table_of
from agentrt.lab.checkpoints.shapes import SHAPES
from agentrt.lab.errors import BenchFailed

TINY = SHAPES["tiny"]
ROW = SweepPoint(batch=4, prompt_tokens=100, new_tokens=9, shared_tokens=0, dtype="bfloat16")


def sample(step_s: float, prefill_s: float = 1.0, tokens: tuple[int, ...] = (9,) * 4) -> Sample:
    return Sample(prefill_s, 8 * step_s, 8, tokens, "hash")


def result(**arms: list[Sample]) -> PointResult:
    return PointResult(
        point=ROW,
        arms=[
            ArmResult(
                Arm(
                    name.split("_")[0],
                    name,
                    ("run",),
                    {"model_path": "/home/me/bench/tiny", "threads": 2},
                    {"HOME": "/home/me", "API_KEY": "x", "OMP_NUM_THREADS": "2"},
                ),
                {},
                samples,
            )
            for name, samples in arms.items()
        ],
        probes={},
        ceilings=[
            {"read_bytes_s": 1e9, "flops_s": 1e12, "threads": 2},
            {"read_bytes_s": 2e9, "flops_s": 5e11, "threads": 2},
        ],
    )


def test_a_ratio_is_the_median_over_rounds_not_of_medians() -> None:
    ours = [sample(1.0), sample(2.0), sample(10.0)]
    peer = [sample(3.0), sample(2.0), sample(10.0)]
    assert ratio_of_rounds(ours, peer, "decode") == 1.0
    assert ratio_of_rounds(ours, peer, "prefill") == 1.0


def test_the_best_variant_of_a_peer_is_what_we_are_held_against() -> None:
    found = result(agentrt=[sample(1.0)], hf_1=[sample(3.0)], hf_2=[sample(2.0)])
    assert found.ratio("hf", "decode") == 2.0
    assert found.ratio("llama.cpp", "decode") is None


def test_rates_are_held_against_the_better_ceiling() -> None:
    found = result(agentrt=[sample(0.5)])
    told = found.figures(TINY, found.arms[0])
    assert told["decode_tokens_s"] == 8.0
    assert told["prefill_tokens_s"] == 400.0
    assert told["decode_bytes_s"] == pytest.approx(
        (2 * TINY.parameters + 4 * 104.5 * TINY.kv_bytes_a_token("bfloat16")) / 0.5
    )
    assert told["decode_share_of_ceiling"] == pytest.approx(told["decode_bytes_s"] / 2e9)


def test_arms_that_did_unlike_work_are_not_compared() -> None:
    equal = {"ours": sample(1.0), "peer": sample(2.0)}
    check_equal_work(equal, point="a row")
    with pytest.raises(BenchFailed, match="unlike numbers of tokens in a row"):
        check_equal_work({**equal, "peer": sample(1.0, tokens=(9, 9, 9, 3))}, point="a row")


def test_an_arm_without_a_decode_step_fails_the_bench() -> None:
    answer = {"outputs": [[1]], "decode_steps": 0, "decode_s": 0.0, "prefill_s": 1.0}
    with pytest.raises(BenchFailed, match="no decode step"):
        sample_from(answer, arm="ours")


def test_a_sample_names_its_output() -> None:
    told = {"outputs": [[1, 2], [3]], "decode_steps": 1, "decode_s": 1.0, "prefill_s": 1.0}
    first = sample_from(told, arm="ours")
    other = sample_from({**told, "outputs": [[1], [2, 3]]}, arm="ours")
    assert first.output_tokens == (2, 1)
    assert first.output_hash != other.output_hash


def test_the_file_holds_every_sample_and_no_secret() -> None:
    found = result(agentrt=[sample(1.0), sample(2.0)], hf_1=[sample(3.0), sample(4.0)])
    text = json.dumps(to_json(TINY, [found]))
    told = json.loads(text)
    (row,) = told["rows"]
    assert [len(arm["samples"]) for arm in row["arms"]] == [2, 2]
    assert row["ratios"] == {"hf": {"prefill": 1.0, "decode": 2.5}}
    assert row["arms"][0]["environment"] == {"OMP_NUM_THREADS": "2"}
    assert row["arms"][0]["settings"] == {"model_path": "bench/tiny", "threads": 2}
    assert table_of(TINY, [found]).row_count == 2
