"""A cache that never forgets finds the longest beginning that any earlier prompt had."""

from hypothesis import given
from hypothesis import strategies as st

from agentrt.lab.sessions.ideal import TokenTree, ideal_tokens
from agentrt.lab.sessions.prompt_reader import LetterReader
from agentrt.lab.workloads.agent_session import AgentMessage, AgentTurn

PROMPTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), max_size=25)


def shared(one: list[int], other: list[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


@given(PROMPTS)
def test_it_is_the_longest_common_beginning(prompts: list[list[int]]) -> None:
    found = ideal_tokens(prompts)
    for at, prompt in enumerate(prompts):
        longest = max((shared(prompt, earlier) for earlier in prompts[:at]), default=0)
        assert found[at] == min(longest, len(prompt) - 1)


def test_the_last_token_is_always_computed() -> None:
    tree = TokenTree()
    assert tree.add([1, 2, 3]) == 0
    assert tree.add([1, 2, 3]) == 2
    assert tree.add([1, 2, 3, 4, 5]) == 3
    assert tree.add([1, 2]) == 1


def test_letters_of_prompts_that_begin_alike_begin_alike() -> None:
    reader, tree = LetterReader(), TokenTree()
    question = AgentMessage("user", "Which bed is dry?")
    first = AgentTurn((question,), (), 4)
    second = AgentTurn((question, AgentMessage("assistant", "The last.")), (), 4)
    ids = reader.ids(first)
    assert not reader.counts_tokens
    assert tree.add(ids) == 0
    assert tree.add(reader.ids(second)) == len(ids)
