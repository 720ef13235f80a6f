"""Prompt tokens that a cache of whole blocks finds if it never forgets."""

from agentrt.lab.bench.compound.ideal import PrefixTree
from agentrt.lab.workloads.trace import Message, Piece, ProgramTrace, TraceCall


def program(serial: int, own: int) -> ProgramTrace:
    prompt: tuple[Message, ...] = (
        ("system", (Piece("rules", 100),)),
        ("user", (Piece(f"question {serial}", own),)),
    )
    return ProgramTrace("one", serial, (TraceCall("a", prompt, 8, site="a"),), ("a",))


def test_the_first_finds_nothing_and_others_the_whole_blocks() -> None:
    programs = [program(serial, 50) for serial in range(3)]
    assert PrefixTree().found_tokens(programs, 32) == 2 * 96
    assert PrefixTree().found_tokens(programs, 1) == 2 * 100
    assert PrefixTree().found_tokens(programs[:1] * 2, 32) == 128, "150 tokens, 4 whole blocks"
