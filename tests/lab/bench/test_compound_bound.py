"""Bounds never exceed what is possible, and follow the form of the graph."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.analysis import HardwareCosts, MachineRates, Step, StepCosts, model_work, step_costs
from agentrt.lab.bench.compound.bound import bound_s
from agentrt.lab.bench.compound.ideal import PrefixTree
from agentrt.lab.bench.compound.plan import totals, widest
from agentrt.lab.checkpoints.shapes import SHAPES as MODELS
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.shapes import SHAPES, drawn
from agentrt.lab.workloads.trace import (
    Message,
    OutputOf,
    Piece,
    ProgramTrace,
    ToolUse,
    TraceCall,
    TraceResult,
    prompt_tokens,
)

COSTS = StepCosts(alone_s=0.010, sequence_s=0.001, prompt_token_s=0.0001)
SMALL = Scale(0.2, 0.2, 0.2, 0.3, 0.0)


def finance() -> ProgramTrace:
    ask: Message = ("user", (Piece("q", 101),))
    plan = TraceCall("plan", (ask,), 11, site="plan")
    early = ToolUse("early", 0.5, plan="plan", at_token=6, result_tokens=21, site="t")
    late = ToolUse("late", 0.1, plan="plan", result_tokens=10, site="t")
    messages: tuple[Message, ...] = (
        ask,
        ("assistant", (OutputOf("plan"),)),
        ("user", (TraceResult("early", 21), TraceResult("late", 10))),
    )
    report = TraceCall("report", messages, 5, site="report")
    return ProgramTrace("finance", 0, (plan, early, late, report), ("report",))


def working_set_tokens(programs: Sequence[ProgramTrace]) -> int:
    """Tokens in a cache that never forgets: every distinct prefix, and every output."""
    amount = totals(programs)
    return int(amount["new_tokens"] + amount["output_tokens"])


def test_a_path_goes_through_the_tool_that_begins_within_its_plan() -> None:
    program = finance()
    shares = PrefixTree().add(program)
    assert shares["plan"].new_tokens == 101
    assert shares["report"].new_tokens == 31  # the plan itself is known
    first_s = 0.010 + 100 * 0.0001
    tool_s = first_s + 5 * 0.010 + 0.5
    prompt_s = 21 * 0.0001  # as soon as the first result is there
    report_s = tool_s + prompt_s + 0.010 + 9 * 0.0001 + 4 * 0.010
    assert bound_s(program, shares, COSTS) == pytest.approx(report_s)


def test_samples_share_their_prompt_and_a_vote_ends_with_enough() -> None:
    prompt: tuple[Message, ...] = (("user", (Piece("q", 50),)),)
    calls = tuple(TraceCall(f"s{at}", prompt, 10 * (at + 1), site="s") for at in range(3))
    program = ProgramTrace("vote", 0, calls, (), (("s0", "s1", "s2"), 2))
    shares = PrefixTree().add(program)
    assert [share.new_tokens for share in shares.values()] == [50, 0, 0]
    assert bound_s(program, shares, COSTS) == pytest.approx(0.010 + 19 * 0.010)
    assert widest(program) == 3
    assert working_set_tokens([program, program]) == 50 + 2 * 60


def test_a_wide_program_is_bound_by_its_work() -> None:
    calls = tuple(
        TraceCall(f"c{at}", (("user", (Piece(f"q{at}", 1000),)),), 2, site="c") for at in range(20)
    )
    program = ProgramTrace("wide", 0, calls, tuple(call.name for call in calls))
    shares = PrefixTree().add(program)
    assert bound_s(program, shares, COSTS) == pytest.approx(20_000 * 0.0001 + 40 * 0.001)


def test_what_a_form_gives_needs_no_step() -> None:
    free, formed = (
        ProgramTrace(
            "x",
            0,
            (TraceCall("c", (("user", (Piece("q", 9),)),), 21, site="c", forced_tokens=f),),
            ("c",),
        )
        for f in (0, 15)
    )
    took = [bound_s(one, PrefixTree().add(one), COSTS) for one in (free, formed)]
    assert took[0] - took[1] == pytest.approx(15 * 0.010)


@given(st.sampled_from(sorted(SHAPES)), st.integers(0, 50))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_bounds_and_trees_of_any_program(name: str, seed: int) -> None:
    program = drawn(name, seed, SMALL)
    shares = PrefixTree().add(program)
    lengths = prompt_tokens(program)
    for call in program.calls():
        assert 0 <= shares[call.name].new_tokens <= shares[call.name].prompt_tokens
        assert shares[call.name].prompt_tokens == lengths[call.name]
    least = bound_s(program, shares, COSTS)
    alone = sum(
        COSTS.pass_s(max(1, lengths[call.name]), 0) + COSTS.decode_s(call.output_tokens, 0)
        for call in program.calls()
    )
    assert 0 < least <= alone + sum(tool.seconds for tool in program.tools())
    assert bound_s(program, PrefixTree().add(program), StepCosts(0.02, 0.002, 0.0002)) >= least
    if program.quorum is None:  # what comes twice finds all its text
        again = PrefixTree()
        again.add(program)
        twice = again.add(program)
        assert sum(share.new_tokens for share in twice.values()) == 0


def test_hardware_is_bound_by_reading_or_by_multiplying() -> None:
    work = model_work(MODELS["half"], "bfloat16")
    slow_memory = HardwareCosts(MachineRates(read_bytes_s=50e9, flops_s=1e15), work)
    assert slow_memory.decode_s(1, 0) == pytest.approx(work.weight_bytes / 50e9)
    slow_matrices = HardwareCosts(MachineRates(read_bytes_s=1e15, flops_s=1e12), work)
    assert slow_matrices.prompt_s(100, 100) == pytest.approx(
        100 * (work.flops_a_token + 50 * work.flops_a_history_token) / 1e12
    )
    assert work.weight_bytes == pytest.approx(2 * MODELS["half"].parameters, rel=0.01)


def test_steps_tell_what_each_kind_costs() -> None:
    steps = [Step(0.010, 0, 1)] * 3 + [Step(0.013, 0, 4)] * 3 + [Step(0.040, 290, 1)] * 3
    found = step_costs(steps)
    assert found is not None
    assert found.alone_s == pytest.approx(0.010)
    assert found.sequence_s == pytest.approx(0.001)
    assert found.prompt_token_s == pytest.approx(0.029 / 290)
    assert step_costs([Step(0.02, 0, 4)]) is None
