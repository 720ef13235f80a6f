"""Each feature is taken away by its own switch, and the switch takes away what it names."""

from contextlib import AsyncExitStack
from dataclasses import asdict, replace
from pathlib import Path

import anyio
import pytest

from agentrt.base.config import EngineConfig, SchedulerConfig
from agentrt.base.errors import UsageError
from agentrt.lab.arms import runtime_arm
from agentrt.lab.arms.program_arm import runtime_arm as arm_of
from agentrt.lab.arms.served import Served
from agentrt.lab.arms.wire import ProgramLine
from agentrt.lab.bench.compound.ablation import ablation_parts, ablation_ratios
from agentrt.lab.bench.compound.arm_samples import ArmSamples, PlayedRound
from agentrt.lab.bench.compound.command import check, own_arms
from agentrt.lab.bench.compound.features import FEATURES, WITH_ALL, ablation, without_name
from agentrt.lab.bench.compound.figures import PlayedProgram, played
from agentrt.lab.bench.compound.model import bench_model
from agentrt.lab.bench.compound.plan import rounds_of_one
from agentrt.lab.bench.compound.work import Work, work_of
from agentrt.lab.bench.flags import CompoundFlags
from agentrt.lab.workloads.shapes import SHAPES

SCALE = "context=0.05,output=0.8,time=0.002,count=0.3,think=0"
COUNTED = [name for name, feature in FEATURES.items() if feature.count]


def test_each_feature_is_one_switch_and_no_other() -> None:
    arms = ablation(list(FEATURES))
    every = arms[WITH_ALL]
    changed = {}
    for name in FEATURES:
        one = arms[without_name(name)]
        fields = [
            (f"{part}.{key}", value)
            for part in ("scheduler", "play")
            for key, value in asdict(getattr(one, part)).items()
            if value != getattr(getattr(every, part), key)
        ]
        engine = [
            (key, value) for key, value in one.engine.items() if every.engine.get(key) != value
        ]
        assert len(fields) + len(engine) == 1, name
        changed[name] = (fields + engine)[0]
        EngineConfig(Path(), **one.engine)  # its fields are there
    assert len(set(changed.values())) == len(FEATURES)
    assert every.scheduler == SchedulerConfig(prefill_ahead=True)


def test_features_are_named_or_all_of_them_are_meant() -> None:
    flags = CompoundFlags(arms="agentrt", without="drafts,holes")
    assert list(own_arms(flags)) == [WITH_ALL, "agentrt:without-drafts", "agentrt:without-holes"]
    assert len(own_arms(replace(flags, without="all"))) == 1 + len(FEATURES)
    for feature in FEATURES.values():
        assert set(feature.touches) <= set(SHAPES)
    with pytest.raises(UsageError, match="--without haste is not known"):
        check(replace(flags, without="haste"))
    with pytest.raises(UsageError, match="no ablation"):
        check(replace(flags, policy="fcfs"))


@pytest.fixture(scope="module")
def lines() -> list[ProgramLine]:
    """A program of each shape in which a counted feature shows."""
    model = bench_model("micro", scale=SCALE)
    shapes = ["finance", "self-consistency", "chat", "map-reduce"]
    return [line for one in rounds_of_one(shapes, 1, 1, model.drawing) for line in one.lines("x")]


@pytest.fixture(scope="module")
def every(lines: list[ProgramLine]) -> Work:
    return work_with(None, lines)


def work_with(feature: str | None, lines: list[ProgramLine]) -> Work:
    """The work of our runtime in this process, one program after the other."""
    served = Served(bench_model("micro", scale=SCALE).path, "float32", kv_tokens=16_384)
    arms = ablation([feature] if feature else [])
    own = arms[without_name(feature) if feature else WITH_ALL]
    arm = arm_of(served, own.scheduler, threads=1, engine=own.engine, options=own.play)

    async def play() -> list[PlayedProgram]:
        found = []
        async with AsyncExitStack() as stack:
            process = runtime_arm.RuntimeArm(stack)
            await process.open(dict(arm.settings))
            for line in lines:
                (sample,) = (await process.play([line]))["samples"]
                assert sample["error"] == ""
                found.append(played(line, sample, arm="a"))
        return found

    return work_of([PlayedRound("x", 1, 0, tuple(anyio.run(play)))])


@pytest.mark.slow
@pytest.mark.parametrize("feature", COUNTED)
def test_a_feature_that_is_off_counts_nothing(
    feature: str, every: Work, lines: list[ProgramLine]
) -> None:
    count = FEATURES[feature].count
    assert getattr(every, count) > 0
    without = work_with(feature, lines)
    if FEATURES[feature].spares:
        assert getattr(without, count) > getattr(every, count)
    else:
        assert getattr(without, count) == 0
    assert without.programs == every.programs


def test_a_table_and_a_plot_have_every_feature() -> None:
    def samples(latency_s: float) -> ArmSamples:
        one = PlayedProgram(
            name="p", shape="finance", tenant="", latency_s=latency_s, tools_s=0.0,
            prompt_tokens=3, cached_tokens=1, output_tokens={"call": 4}, output_hash="x",
            wasted_tokens=0, split={}, arrived_s=0.0, ended_s=1.0, kept_tokens=None,
        )  # fmt: skip
        return ArmSamples([PlayedRound("finance", 1, 0, (one,))])

    arms = {WITH_ALL: samples(1.0), without_name("early-tools"): samples(2.0)}
    arms |= {without_name("drafts"): samples(0.5), "agentrt": samples(9.0)}
    ratios = ablation_ratios(arms)
    assert {name: one["all"]["value"] for name, one in ratios.items()} == {
        "drafts": pytest.approx(2.0), "early-tools": pytest.approx(0.5)
    }  # fmt: skip
    assert ratios["early-tools"]["touched"]["value"] == pytest.approx(0.5)
    work = asdict(work_of(arms[WITH_ALL].plays))
    told = [{"name": name, "figures": {"finance": {"work": work}}} for name in arms]
    heading, table, plot = ablation_parts({"ablation": ratios, "arms": told})
    assert "Ablation" in heading
    assert "early-tools" in table
    assert "0.500" in table
    assert plot.startswith("<svg")
    assert ablation_parts({"ablation": {}, "arms": []}) == []
