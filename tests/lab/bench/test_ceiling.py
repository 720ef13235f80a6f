"""The share of a served arm's latency that could be spared, and how much of it is."""

import pytest

from agentrt.lab.bench.compound.arm_samples import ArmSamples, PlayedRound
from agentrt.lab.bench.compound.bound import bound_s, guessed_shares
from agentrt.lab.bench.compound.ceiling import ceilings, ceilings_in_words, guesses_in_words
from agentrt.lab.bench.compound.figures import PlayedProgram
from agentrt.lab.bench.compound.ideal import PrefixTree
from agentrt.lab.bench.compound.result import comparison
from agentrt.lab.workloads.trace import Piece, ProgramTrace, TraceCall

PEER = "asyncio+ours"


class Seconds:
    """A second for each step of decoding, and nothing else."""

    def decode_s(self, tokens: int, read_tokens: int) -> float:
        return float(tokens)

    def prompt_s(self, tokens: int, read_tokens: int) -> float:
        return 0.0

    def pass_s(self, tokens: int, read_tokens: int) -> float:
        return 0.0

    def work_s(self, prompt_tokens: int, output_tokens: int) -> float:
        return 0.0


def samples(latency_s: float, *, drafted: int | None = None) -> ArmSamples:
    sample = PlayedProgram(
        name="react/1",
        shape="react",
        tenant="",
        latency_s=latency_s,
        tools_s=0.0,
        prompt_tokens=1,
        cached_tokens=0,
        output_tokens={"act": 20},
        output_hash="",
        wasted_tokens=0,
        split={},
        arrived_s=0.0,
        ended_s=latency_s,
        kept_tokens=None,
        forced_tokens=10,
        drafted_tokens=drafted,
    )
    return ArmSamples([PlayedRound("react", 1, 0, (sample,))])


def bounds(steps_s: float | None) -> dict[str, object]:
    programs = {"react/1": {"hardware_s": 0.1, "steps_s": steps_s, "guessed_s": 1.0}}
    return {"shapes": {"react": {"programs": programs}}}


def test_the_gap_is_what_lies_between_the_ceiling_and_the_served_arm() -> None:
    arms = {"agentrt": samples(3.0), "agentrt:plain": samples(3.5), PEER: samples(4.0)}
    compared = comparison(arms, ["react"], "agentrt")
    found = ceilings(arms, bounds(2.0), compared)
    assert list(found) == [PEER]
    one = found[PEER]["react"]
    assert one["ours"] == pytest.approx(0.75)
    assert one["ceiling"] == pytest.approx({"value": 0.5, "gap": 0.5, "closed": 0.5})
    assert one["ceiling_with_guesses"] == pytest.approx(
        {"value": 0.25, "gap": 0.75, "closed": 1 / 3}
    )
    (line,) = ceilings_in_words({"ceilings": found})
    assert "closed 50%" in line
    assert compared["best_peer"] == {"react": PEER}


def test_without_bounds_or_a_gap_nothing_is_closed() -> None:
    arms = {"agentrt": samples(3.0), PEER: samples(1.5)}
    compared = comparison(arms, ["react"], "agentrt")
    assert ceilings(arms, {}, compared) == {}
    assert ceilings(arms, bounds(None), compared) == {}
    assert ceilings(arms, bounds(2.0), compared)[PEER]["react"]["ceiling"]["closed"] is None


def test_guessed_tokens_take_no_step() -> None:
    (share,) = guessed_shares(samples(3.0, drafted=5)).values()
    assert share == 0.5  # of the ten that no form determined
    assert guessed_shares(samples(3.0)) == {"react/1": 0.0}
    prompt = (("user", (Piece("q", 5),)),)
    act = TraceCall("act", prompt, 21, site="act", forced_tokens=10)  # type: ignore[arg-type]
    program = ProgramTrace("react", 1, (act,), ("act",))
    shares = PrefixTree().add(program)
    assert bound_s(program, shares, Seconds()) == 10
    assert bound_s(program, shares, Seconds(), share) == 5


def test_guesses_are_told_by_their_source() -> None:
    work = {"output_tokens": 20, "drafts": {"site": 7, "prompt": 0}}
    arms = [{"name": "agentrt", "figures": {"react": {"work": work}}}]
    assert list(guesses_in_words({"arms": arms})) == [
        "react, agentrt: of 20 tokens guessed 7 by site."
    ]
