"""The operating point of a load and its figures, on an engine that is a queue of one slot."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import pytest

from agentrt.base.config import SchedulerConfig
from agentrt.base.errors import UsageError
from agentrt.lab.bench.compound.arm_samples import PlayedRound
from agentrt.lab.bench.compound.figures import PlayedProgram
from agentrt.lab.bench.compound.load import label_of, rounds_of
from agentrt.lab.bench.compound.load_draw import largest_tokens, load_draw
from agentrt.lab.bench.compound.load_figures import load_figures, prefill_figures
from agentrt.lab.bench.compound.load_point import (
    ENOUGH_KV_TOKENS,
    ROOM,
    OpenLoad,
    PlayOne,
    find_load_point,
)
from agentrt.lab.bench.compound.load_point_file import point_from_json, point_to_json
from agentrt.lab.bench.compound.load_targets import targets
from agentrt.lab.bench.compound.plan import ProgramDraw, Round, longest_tokens, totals
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.sizes import SIZES
from agentrt.lab.workloads.step_sample import StepSample
from agentrt.lab.workloads.text import KeySpeller
from agentrt.lab.workloads.trace import ProgramTrace

SCALE = Scale(0.125, 0.25, 0.01, 0.5, 0.0)
DRAWING = ProgramDraw(SCALE, SIZES, 0, KeySpeller([" abc", " abd", " abe"]), 4_096)

STEPS = [
    StepSample(0.01 + 1e-4 * at, 10 * at, at % 5, 100 * at, 0.0, None, 0) for at in range(1, 30)
]


def sample(
    name: str, *, latency_s: float, tenant: str = "", arrived_s: float = 0.0
) -> PlayedProgram:
    return PlayedProgram(
        name=name,
        shape="x",
        tenant=tenant,
        latency_s=latency_s,
        tools_s=0.0,
        prompt_tokens=10,
        cached_tokens=4,
        output_tokens={"call": 3},
        output_hash="",
        wasted_tokens=0,
        split={},
        arrived_s=arrived_s,
        ended_s=arrived_s + latency_s,
        kept_tokens=100.0,
    )


def service_s(program: ProgramTrace) -> float:
    return 0.01 * sum(call.output_tokens for call in program.calls())


def served_in_order(one: Round) -> list[PlayedProgram]:
    """One program at a time, as they come; half of what each computes is kept all its life."""
    free_s, found = 0.0, []
    for arrival in one.workload:
        free_s = max(free_s, arrival.at_s) + service_s(arrival.program)
        latency_s = free_s - arrival.at_s
        told = sample(arrival.program.name, latency_s=latency_s, arrived_s=arrival.at_s)
        told = replace(told, kept_tokens=working_set_tokens([arrival.program]) / 2)
        found.append(told)
    return found


def working_set_tokens(programs: Sequence[ProgramTrace]) -> int:
    """Tokens in a cache that never forgets: every distinct prefix, and every output."""
    amount = totals(programs)
    return int(amount["new_tokens"] + amount["output_tokens"])


def test_a_draw_is_stretched_by_its_rate_and_fits() -> None:
    draw = load_draw(0, 20, DRAWING, tenants=3)
    slow, quick = draw.arriving(1.0), draw.arriving(4.0)
    assert [one.program for one in slow] == [one.program for one in quick] == list(draw.programs)
    for late, early in zip(slow, quick, strict=True):
        assert late.at_s == pytest.approx(4 * early.at_s)
    assert not draw.shortened
    largest = largest_tokens([draw])
    again = load_draw(0, 20, DRAWING, tenants=3, longest=int(0.6 * largest))
    assert largest_tokens([again]) <= 0.6 * largest
    for program, other in zip(draw.programs, again.programs, strict=True):
        assert (program.name, program.tenant) == (other.name, other.tenant)
        assert (program == other) == (program.name not in again.shortened)
        assert longest_tokens(other) <= longest_tokens(program)
    with pytest.raises(UsageError, match="requests of at most 10 tokens"):
        load_draw(0, 20, DRAWING, longest=10)


@pytest.mark.parametrize("kv_share", [0.0, 0.33])
def test_memory_is_a_share_of_the_working_set_with_enough_memory(kv_share: float) -> None:
    memories: list[int] = []
    asked: list[tuple[SchedulerConfig, Round]] = []

    def open_engine(scheduler: SchedulerConfig, kv_tokens: int, stack: ExitStack) -> PlayOne:
        memories.append(kv_tokens)
        stack.callback(memories.append, -kv_tokens)

        def play(one: Round) -> tuple[list[PlayedProgram], list[StepSample]]:
            asked.append((scheduler, one))
            return served_in_order(one), STEPS

        return play

    load = OpenLoad(0.0, 6.0, 60, 2, plays=2, factors=(0.6,), kv_share=kv_share, tenants=2)
    found = find_load_point(load, DRAWING, open_engine)
    again = json.loads(json.dumps(point_to_json(load, found)))
    assert point_from_json(load, DRAWING, again, "f") == found
    with pytest.raises(UsageError, match="slowdown"):
        point_from_json(replace(load, slowdown=5.0), DRAWING, again, "f")
    gated = [one for scheduler, one in asked if scheduler.gate_share]
    assert {one.label for one in gated} == {"warm", "probe"}
    assert [one.label for one in gated].index("warm") == 0, "the baseline has learned"
    (probe,), ample = found.point.found, found.point.ample
    assert probe.slowdown == pytest.approx(6.0, rel=0.16)
    assert found.alone_s == {
        program.name: pytest.approx(service_s(program))
        for draw in found.draws
        for program in draw.programs
    }
    assert ample is not None
    assert ample.slowdown == pytest.approx(6.0, rel=0.16)
    assert ample.kv_tokens == ENOUGH_KV_TOKENS
    assert probe.kv_tokens == found.point.kv_tokens == -memories[-1]
    assert sum(memories) == 0, "one engine at a time, and each is closed"
    assert (ample is probe) == (not kv_share)
    largest = largest_tokens(found.draws)
    if kv_share:
        wanted = max(ROOM * largest, kv_share * ample.working_set_tokens)
        assert wanted - 16 < probe.kv_tokens <= wanted
        assert found.kv_share == probe.kv_tokens / ample.working_set_tokens
    assert found.lasts_s.keys() == set(found.point.tried)
    rounds = rounds_of(load, found, DRAWING)
    labels = [label_of(share) for share in (0.6, 1.0) for _ in range(4)]
    assert [one.label for one in rounds[1:]] == labels
    assert len({one.key for one in rounds}) == len(rounds) == 9
    limits: dict[tuple[str, str], set[int]] = {}
    for line in (line for one in rounds for line in one.lines()):
        assert line["kv_tokens"][0] >= line["kv_tokens"][1] > 0
        for node in line["nodes"]:
            if node["kind"] == "call":
                assert node["service_s"] > 0
                limits.setdefault((line["shape"], node["site"]), set()).add(node["limit"])
    assert {len(one) for one in limits.values()} == {1}, "calls of a site have one limit"
    assert not rounds[0].counts
    learned = {program.name for program in rounds[0].programs}
    measured = {program.name for one in rounds[1:] for program in one.programs}
    assert not learned & measured  # no arm learns from what is measured
    texts = [str(one.lines("arm")[0]["nodes"][0]) for one in rounds]
    assert len(set(texts)) == len(texts)  # and none finds it in a cache


def test_a_load_tells_slowdown_goodput_and_fairness() -> None:
    samples = [
        sample(f"p{at}", tenant=f"t{at % 2}", latency_s=float(1 + at % 2 * 5)) for at in range(20)
    ]
    alone_s = {one.name: 1.0 for one in samples}
    found = load_figures([samples], alone_s, rate=4.0)
    assert found["mean_slowdown"]["value"] == pytest.approx(3.5)
    assert found["in_time"] == {"2": 0.5, "3": 0.5, "5": 0.5, "10": 1.0}
    assert found["goodput"]["10"] == 4.0
    assert found["sustained"] == {"2": False, "3": False, "5": False, "10": True}
    assert found["fairness"] == pytest.approx((1 + 1 / 6) ** 2 / (2 * (1 + 1 / 36)))
    assert found["hit_rate"] == pytest.approx(0.4)


def test_the_first_tenth_of_each_round_is_left_out() -> None:
    early = [sample(f"p{at}", latency_s=100.0 if at == 0 else 2.0) for at in range(10)]
    found = load_figures([early, early], {one.name: 1.0 for one in early}, rate=1.0)
    assert found["most_slowdown"] == 2.0


def test_prompts_computed_again_are_counted() -> None:
    draw = load_draw(0, 4, DRAWING)
    one = Round("load 1", draw.arriving(1.0), DRAWING.spell, counts=True)
    least = working_set_tokens(draw.programs)
    least -= sum(call.output_tokens for program in draw.programs for call in program.calls())
    play = PlayedRound("load 1", 0, 0, (), steps=2, computed_tokens=least + least // 2, busy_s=0.2)
    found = prefill_figures([play], [one])
    assert (found["steps"], found["busy_s"]) == (2, 0.2)
    assert found["least_prompt_tokens"] == least
    assert found["redundant"] == pytest.approx(0.5, abs=0.01)


def test_targets_are_told_over_draws_as_far_as_arms_were_played() -> None:
    names = [f"p{at}" for at in range(30)]
    alone_s = dict.fromkeys(names, 1.0)

    def plays(times: float) -> list[PlayedRound]:
        return [
            PlayedRound(
                "load 1",
                draw,
                play,
                tuple(
                    sample(name, latency_s=times * (at + 1) * (1 + draw))
                    for at, name in enumerate(names)
                ),
            )
            for draw in range(3)
            for play in range(2)
        ]

    arms = {"fcfs+gate": plays(4.0), "rwa": plays(2.0), "clairvoyant": plays(1.6)}
    found = targets(arms, alone_s)
    assert [one.found.value for one in found] == pytest.approx([0.5, 0.5, 0.5, 1.25, 1.25])
    assert [one.is_met for one in found] == [True, True, True, False, False]
    assert all(one.found.low == pytest.approx(one.found.high) for one in found)  # paired
    assert "1.250 (1.250 to 1.250), at most 1.15: missed" in str(found[-1])
    assert len(targets({"rwa": arms["rwa"], "clairvoyant": arms["clairvoyant"]}, alone_s)) == 2
