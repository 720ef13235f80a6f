"""Each shape draws graphs of its kind, and the same ones from the same seed."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.errors import UsageError
from agentrt.lab.workloads.mixes import OPEN_MIX, mix
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.shapes import SHAPES, drawn, shape_named
from agentrt.lab.workloads.trace import (
    OutputOf,
    Piece,
    ProgramTrace,
    TraceResult,
    TraceThink,
    needs,
    parts,
    prompt_tokens,
)

LIFE = Scale()


def depth(program: ProgramTrace) -> int:
    """Nodes on the longest path."""
    longest: dict[str, int] = {}
    for node in program.nodes:
        longest[node.name] = 1 + max((longest[name] for name in needs(node)), default=0)
    return max(longest.values())


@given(
    st.sampled_from(sorted(SHAPES)),
    st.integers(0, 10_000),
    st.builds(Scale, *(st.floats(0.01, 2) for _ in range(4)), think=st.sampled_from([0.0, 0.5])),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_every_draw_is_a_valid_trace_and_repeats(name: str, seed: int, scale: Scale) -> None:
    program = drawn(name, seed, scale)  # its own checks hold
    assert program == drawn(name, seed, scale)
    assert program.shape == name
    lengths: dict[str, int] = {}
    for call in program.calls():
        for part in parts(call):
            if isinstance(part, Piece):
                assert lengths.setdefault(part.key, part.tokens) == part.tokens, part.key
    results = {tool.name: tool.result_tokens for tool in program.tools()}
    for call in program.calls():
        for part in parts(call):
            if isinstance(part, TraceResult):
                assert results[part.tool] == part.tokens


@pytest.mark.parametrize("name", SHAPES)
def test_programs_of_a_shape_share_text_and_have_their_own(name: str) -> None:
    keys = [
        {part.key for call in drawn(name, seed, LIFE).calls() for part in parts(call)
         if isinstance(part, Piece)}
        for seed in range(40)
    ]  # fmt: skip
    shared = Counter(key for one in keys for key in one)
    assert max(shared.values()) > 1
    assert all(any(shared[key] == 1 for key in one) for one in keys)


def mean(name: str, draws: int = 60) -> dict[str, float]:
    programs = [drawn(name, seed, LIFE) for seed in range(draws)]
    counted = {
        "calls": sum(len(program.calls()) for program in programs),
        "tools": sum(len(program.tools()) for program in programs),
        "prompt": sum(sum(prompt_tokens(program).values()) for program in programs),
        "output": sum(call.output_tokens for p in programs for call in p.calls()),
        "depth": sum(depth(program) for program in programs),
    }
    return {key: value / draws for key, value in counted.items()}


def test_sizes_are_those_of_the_sources() -> None:
    react = mean("react")
    assert react["tools"] == pytest.approx(5.7, rel=0.3)
    assert react["calls"] == pytest.approx(10.75, rel=0.2)
    assert react["prompt"] / react["calls"] == pytest.approx(735, rel=0.3)
    assert react["output"] / react["calls"] == pytest.approx(34, rel=0.3)
    tree = mean("tree-of-thought")
    assert tree["calls"] == pytest.approx(11 + 3 * 61.5, rel=0.1)
    assert tree["output"] == pytest.approx(5_500, rel=0.2)
    parts_of = mean("map-reduce")
    assert parts_of["prompt"] / parts_of["calls"] == pytest.approx(2_588, rel=0.2)
    assert parts_of["output"] / parts_of["calls"] == pytest.approx(291, rel=0.3)


def test_graphs_have_the_form_of_their_shape() -> None:
    finance = drawn("finance", 0, LIFE)
    tools = finance.tools()
    assert 3 <= len(tools) <= 8
    assert [tool.at_token for tool in tools] == sorted({tool.at_token for tool in tools})
    assert tools[0].at_token < tools[-1].at_token == 180
    assert all(0.3 <= tool.seconds <= 3 for tool in tools)
    assert depth(finance) == 3

    vote = drawn("self-consistency", 0, LIFE)
    assert vote.quorum is not None
    assert vote.quorum[1] == len(vote.calls()) // 2 + 1
    assert len({call.prompt for call in vote.calls()}) == 1
    assert depth(vote) == 1

    debate = drawn("debate", 0, LIFE)
    last = debate.calls()[-1]
    quoted = [part.call for part in parts(last) if isinstance(part, OutputOf)]
    rounds = len(debate.calls()) // 3
    assert len(quoted) == 3 * (rounds - 1)

    coding = drawn("coding-agent", 1, LIFE)
    assert depth(coding) == len(coding.nodes)
    assert depth(drawn("tree-of-thought", 0, LIFE)) == 6
    assert depth(drawn("skeleton", 0, LIFE)) == 2
    assert depth(drawn("classification", 0, LIFE)) == 1
    extraction = drawn("extraction", 0, LIFE).calls()[0]
    assert 0.1 < extraction.forced_tokens / extraction.output_tokens < 0.7


def test_scales_shorten_what_they_say() -> None:
    whole, half = (
        drawn("chat", 5, scale) for scale in (LIFE, Scale(context=0.5, output=0.25, think=0.1))
    )
    outputs = [
        (a.output_tokens, b.output_tokens) for a, b in zip(whole.calls(), half.calls(), strict=True)
    ]
    assert all(short == pytest.approx(long / 4, abs=1) for long, short in outputs)
    first = [sum(part.tokens for part in parts(p.calls()[0]) if isinstance(part, Piece))
             for p in (whole, half)]  # fmt: skip
    assert first[1] == pytest.approx(first[0] / 2, abs=2)
    pauses = [[n.seconds for n in p.nodes if isinstance(n, TraceThink)] for p in (whole, half)]
    assert pauses[1] == pytest.approx([seconds / 10 for seconds in pauses[0]])
    assert not [n for n in drawn("chat", 5, Scale(think=0)).nodes if isinstance(n, TraceThink)]


def test_a_mix_has_its_shares_and_tenants() -> None:
    programs = mix(400, Random(1), Scale(0.1, 0.1, 0.1, 0.2), tenants=3)
    shapes = Counter(program.shape for program in programs)
    for name, share in OPEN_MIX.items():
        assert shapes[name] / 400 == pytest.approx(share, abs=0.07)
    assert {program.tenant for program in programs} == {"tenant0", "tenant1", "tenant2"}
    assert len({program.name for program in programs}) == 400


def test_what_does_not_exist_is_said() -> None:
    with pytest.raises(UsageError, match="no shape of programs 'loop'"):
        shape_named("loop")
    with pytest.raises(UsageError, match="scale output=0"):
        Scale(output=0)
    with pytest.raises(UsageError, match="empty"):
        mix(0, Random(0), LIFE)
