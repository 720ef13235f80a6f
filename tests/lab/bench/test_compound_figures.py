"""What samples say, and which samples say nothing because the work was not done."""

import math
from dataclasses import replace

import pytest

from agentrt.analysis.statistics import (
    geometric_mean,
    interval,
    jain,
    mean,
    percentile,
    percentiles,
)
from agentrt.lab.arms.wire import CallSample, ProgramLine, ProgramSample, program_line
from agentrt.lab.bench.compound.arm_samples import ArmSamples, PlayedRound
from agentrt.lab.bench.compound.figures import PlayedProgram, hit_rate, played
from agentrt.lab.bench.compound.result import comparison, figures
from agentrt.lab.bench.compound.run import check_equal
from agentrt.lab.bench.compound.work import work_of
from agentrt.lab.errors import BenchFailed
from agentrt.lab.workloads.text import KeySpeller
from agentrt.lab.workloads.trace import (
    Arrival,
    Message,
    OutputOf,
    Piece,
    ProgramTrace,
    ToolUse,
    TraceCall,
    TraceResult,
    TraceThink,
)

SPELL = KeySpeller([" abc", " abd", " abe"])


def call_told(name: str, began_s: float, ended_s: float, tokens: int) -> CallSample:
    return {
        "name": name,
        "began_s": began_s,
        "first_s": None,
        "ended_s": ended_s,
        "prompt_tokens": 10,
        "cached_tokens": 4,
        "output_tokens": tokens,
        "output": name,
    }


@pytest.fixture
def line() -> ProgramLine:
    plan = TraceCall("plan", (("user", (Piece("q", 5),)),), 7, site="plan", forced_tokens=3)
    tool = ToolUse("tool", 1.0, plan="plan", at_token=4, result_tokens=4, site="tool")
    pause = TraceThink("pause", 2.0, after=("plan",))
    report = TraceCall(
        "report",
        (
            ("user", (Piece("q", 5),)),
            ("assistant", (OutputOf("plan"),)),
            ("user", (TraceResult("tool", 4),)),
        ),
        9,
        after=("pause",),
        site="report",
    )
    program = ProgramTrace("shape", 1, (plan, tool, pause, report), ("report",))
    return program_line(Arrival(0.5, program), SPELL)


@pytest.fixture
def told() -> ProgramSample:
    return {
        "name": "shape/1",
        "arrived_s": 0.5,
        "ended_s": 5.0,
        "calls": [call_told("plan", 0.5, 1.0, 7), call_told("report", 3.5, 5.0, 9)],
        "waits": [
            {"name": "tool", "began_s": 0.9, "ended_s": 1.9},
            {"name": "pause", "began_s": 1.0, "ended_s": 3.0},
        ],
        "given_up": [],
        "error": "",
    }


def one_play(
    *programs: PlayedProgram,
    draw: int = 1,
    steps: int | None = None,
    computed_tokens: int | None = None,
) -> PlayedRound:
    return PlayedRound("x", draw, 0, programs, steps=steps, computed_tokens=computed_tokens)


def vote_line() -> ProgramLine:
    prompt: tuple[Message, ...] = (("user", (Piece("q", 5),)),)
    calls = tuple(TraceCall(f"s{at}", prompt, 4, site="s") for at in range(3))
    program = ProgramTrace("vote", 1, calls, (), (("s0", "s1", "s2"), 2))
    return program_line(Arrival(0.0, program), SPELL)


def test_a_line_says_what_is_needed_to_play_it(line: ProgramLine) -> None:
    plan, tool, pause, report = line["nodes"]
    assert plan["kind"] == "call"
    assert plan["messages"] == [("user", [{"text": SPELL("q", 5)}])]
    assert "seed" not in plan
    assert tool["kind"] == "tool"
    assert tool["text"] == SPELL("shape/1/tool", 4)
    assert pause["kind"] == "think"
    assert report["kind"] == "call"
    assert report["needs"] == ["pause", "plan", "tool"]
    seeds = [node["seed"] for node in vote_line()["nodes"] if node["kind"] == "call"]
    assert len(set(seeds)) == 3  # samples of one prompt


def test_latency_leaves_out_pauses_and_tells_tools_apart(
    line: ProgramLine, told: ProgramSample
) -> None:
    found = played(line, told, arm="a")
    assert found.latency_s == pytest.approx(4.5 - 2.0)
    assert found.tools_s == pytest.approx(0.9)  # from the plan's end to its own
    assert hit_rate([found, found]) == pytest.approx(0.4)
    assert hit_rate([replace(found, cached_tokens=None)]) is None
    assert figures([one_play(found)])["without_tools_s"] == pytest.approx(1.6)


def test_work_is_counted(line: ProgramLine, told: ProgramSample) -> None:
    plan, report = told["calls"]
    calls: list[CallSample] = [{**plan, "forced_tokens": 3}, {**report, "forced_tokens": 1}]
    ours = played(line, {**told, "calls": calls}, arm="a")
    assert (ours.requests, ours.forced_tokens, ours.early_tools, ours.early_calls) == (2, 4, 1, 0)
    work = work_of([one_play(ours, steps=9, computed_tokens=14), one_play(ours, steps=8)])
    assert (work.programs, work.requests, work.output_tokens, work.steps) == (2, 4, 32, 17)
    assert work.computed_tokens == 40 - 16  # what was answered, as one play has no engine's count
    early: list[CallSample] = [plan, {**report, "began_s": 2.5}]  # while the pause lasts
    theirs = played(line, {**told, "calls": early}, arm="b")
    assert (theirs.early_calls, theirs.forced_tokens) == (1, None)
    assert work_of([one_play(ours), one_play(theirs)]).forced_tokens is None


def test_late_tokens_are_those_of_calls_that_quote(line: ProgramLine, told: ProgramSample) -> None:
    plan, report = told["calls"]
    calls: list[CallSample] = [{**plan, "late_tokens": 30}, {**report, "late_tokens": 4}]
    ours = played(line, {**told, "calls": calls}, arm="a")
    assert ours.late_tokens == 4
    assert work_of([one_play(ours), one_play(ours)]).late_tokens == 8
    assert played(line, told, arm="b").late_tokens is None


def test_what_was_computed_is_kept_until_the_program_ends(
    line: ProgramLine, told: ProgramSample
) -> None:
    found = played(line, told, arm="a")
    plan = (told["calls"][0]["prompt_tokens"] or 0) - (told["calls"][0]["cached_tokens"] or 0) + 7
    assert found.kept_tokens == pytest.approx(plan * (5.0 - 1.0) / (5.0 - 0.5))
    unknown = [{**call, "cached_tokens": None} for call in told["calls"]]
    assert played(line, {**told, "calls": unknown}, arm="a").kept_tokens is None  # type: ignore[typeddict-item]


def test_arms_with_other_counts_are_not_compared(line: ProgramLine, told: ProgramSample) -> None:
    one = played(line, told, arm="a")
    check_equal({"a": [one], "b": [replace(one, output_tokens={"report": 9})]})
    with pytest.raises(BenchFailed, match="report has 8 tokens by b, 9 by a"):
        check_equal({"a": [one], "b": [replace(one, output_tokens={"report": 8})]})


def test_other_work_is_refused(line: ProgramLine, told: ProgramSample) -> None:
    plan, report = told["calls"]
    for calls, complaint in (
        ([{**plan, "output_tokens": 6}, report], "plan put out 6 tokens instead of 7"),
        ([plan], "calls are missing: report"),
        ([plan, report, call_told("more", 0, 1, 3)], "more put out 3 tokens instead of None"),
    ):
        with pytest.raises(BenchFailed, match=complaint):
            played(line, {**told, "calls": calls}, arm="a")  # type: ignore[typeddict-item]
    with pytest.raises(BenchFailed, match="not all tools"):
        played(line, {**told, "waits": told["waits"][1:]}, arm="a")


def test_of_a_vote_as_many_as_suffice_have_to_be_there(told: ProgramSample) -> None:
    enough = [call_told("s0", 0, 1, 4), call_told("s2", 0, 1, 4)]
    base: ProgramSample = {**told, "name": "vote/1", "waits": [], "given_up": ["s1"]}
    found = played(vote_line(), {**base, "calls": enough}, arm="a")
    assert found.wasted_tokens is None  # nobody told
    with pytest.raises(BenchFailed, match="of the vote"):
        played(vote_line(), {**base, "calls": enough[:1]}, arm="a")


def test_ratios_are_of_equal_programs_and_to_the_best_of_each_shape(
    line: ProgramLine, told: ProgramSample
) -> None:
    one = played(line, told, arm="a")

    def arm(**latencies: list[float]) -> ArmSamples:
        return ArmSamples(
            [
                PlayedRound(label, at, 0, (replace(one, latency_s=value),))
                for label, values in latencies.items()
                for at, value in enumerate(values)
            ]
        )

    samples = {
        "agentrt": arm(x=[1.0, 2.0, 3.0], y=[1.0]),
        "p": arm(x=[2.0, 4.0, 6.0], y=[4.0]),
        "q": arm(x=[4.0, 8.0], y=[0.5]),
        "r": arm(z=[1.0]),
    }
    found = comparison(samples, ["x", "y", "z"], "agentrt")
    assert found["best_peer"] == {"x": "p", "y": "q"}
    to_best = {label: one["value"] for label, one in found["to_best"].items()}
    assert to_best == {"x": pytest.approx(0.5), "y": pytest.approx(2.0)}
    assert found["geometric_mean_to_best"]["value"] == pytest.approx(1.0)
    assert found["worst_to_best"] == pytest.approx(2.0)
    mean_p = found["peers"]["p"]["geometric_mean"]
    assert mean_p["value"] == pytest.approx(math.sqrt(0.5 * 0.25))
    assert found["peers"]["q"]["programs"] == {"x": 2, "y": 1}  # the programs of both alone
    assert "r" not in found["peers"]


def test_percentiles_reach_what_never_ended() -> None:
    assert percentile([1.0, 2.0, math.inf, math.inf], 0.0) == 1.0
    assert percentile([1.0, 2.0, 3.0, math.inf], 0.99) == math.inf
    assert percentile([math.inf, math.inf], 0.5) == math.inf
    found = percentiles([float(value) for value in range(101)])
    assert (found["p50"].value, found["p95"].value, found["p99"].value) == (50, 95, 99)


def test_an_interval_holds_the_value_and_narrows_with_samples() -> None:
    few, many = (
        interval([float(value % 7) for value in range(count)], mean) for count in (14, 700)
    )
    assert few.low < few.value < few.high
    assert many.high - many.low < (few.high - few.low) / 4
    assert interval([2.0], mean).low == 2.0
    assert interval([1.0, 2.0, 9.0], mean) == interval([1.0, 2.0, 9.0], mean)


def test_means_and_fairness() -> None:
    assert geometric_mean([0.5, 0.5, 4.0]) == pytest.approx(1.0)
    assert jain([1.0, 1.0, 1.0, 1.0]) == 1.0
    assert jain([4.0, 0.0, 0.0, 0.0]) == 0.25
    assert jain([0.0, 0.0]) == 1.0
