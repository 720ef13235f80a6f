"""Drawn sessions have the published shape, the same for each seed, at any scale."""

from functools import cache
from statistics import median

import pytest

from agentrt.base.errors import UsageError
from agentrt.lab.workloads.agent_session import common_messages
from agentrt.lab.workloads.scale import Scale
from agentrt.lab.workloads.session_draw import SessionDraw, SessionSizes
from agentrt.lab.workloads.text import KeySpeller

WORDS = [f" {first}{second}" for first in "abcdefgh" for second in "abcdefgh"]
SMALL = SessionDraw(scale=Scale(context=0.01, output=0.01, count=0.2), longest_tokens=8_000)


@cache
def drawn() -> list[SessionSizes]:
    return [SessionDraw(seed=1).draw_sizes(number) for number in range(400)]


def with_subagents(sizes: SessionSizes) -> bool:
    return any(turn.subagents for turn in sizes.turns)


def test_medians_are_the_published_ones() -> None:
    prompts = [tokens for one in drawn() for tokens in one.prompt_tokens()]
    outputs = [turn.output_tokens for one in drawn() for turn in one.turns]
    assert median(len(one.turns) for one in drawn()) == pytest.approx(43, abs=3)
    assert median(prompts) == pytest.approx(142_000, rel=0.04)
    assert median(outputs) == pytest.approx(444, rel=0.02)
    assert median(prompts) / median(outputs) == pytest.approx(142_000 / 444, rel=0.05)
    assert sum(map(with_subagents, drawn())) / 400 == pytest.approx(0.44, abs=0.03)


def test_most_of_a_prompt_was_computed_before() -> None:
    """New are the task and results, and earlier answers, which stand there as recorded."""
    computed = total = 0
    for one in drawn():
        prompts = one.prompt_tokens()
        computed += prompts[-1] - one.system_tokens
        total += sum(prompts)
    assert 0.96 < 1 - computed / total < 0.98


def test_a_session_is_that_of_its_seed_and_number() -> None:
    one = SessionDraw(seed=3).draw_sizes(7)
    assert one == SessionDraw(seed=3).draw_sizes(7)
    assert one != SessionDraw(seed=3).draw_sizes(8)
    assert one != SessionDraw(seed=4).draw_sizes(7)


def test_a_scale_keeps_the_ratio_of_prompts_to_outputs() -> None:
    scaled = SessionDraw(seed=1, scale=Scale(context=0.1, output=0.1), longest_tokens=40_000)
    prompts, outputs = [], []
    for number in range(100):
        sizes = scaled.draw_sizes(number)
        prompts += sizes.prompt_tokens()
        outputs += [turn.output_tokens for turn in sizes.turns]
    assert median(prompts) / median(outputs) == pytest.approx(142_000 / 444, rel=0.1)


def test_no_request_passes_the_window() -> None:
    draw = SessionDraw(seed=1, longest_tokens=100_000)
    for number in range(50):
        sizes = draw.draw_sizes(number)
        for prompt, turn in zip(sizes.prompt_tokens(), sizes.turns, strict=True):
            assert prompt + turn.output_tokens <= 100_000
    with pytest.raises(UsageError, match="does not fit 20000 tokens"):
        SessionDraw(longest_tokens=20_000).draw_sizes(0)


def test_text_has_the_lengths_that_were_drawn() -> None:
    spell = KeySpeller(WORDS)
    for number in range(20):
        sizes, session = SMALL.draw_sizes(number), SMALL.session(number, spell)
        words = [
            sum(len(message.text.split()) for message in turn.messages) for turn in session.turns
        ]
        assert words == sizes.prompt_tokens()
        for turn, later in zip(session.turns, session.turns[1:], strict=False):
            assert common_messages(turn.messages, later.messages) == len(turn.messages)


def test_agents_share_their_beginning_and_nothing_else() -> None:
    spell = KeySpeller(WORDS)
    one, other = (SMALL.session(number, spell) for number in range(2))
    assert common_messages(one.turns[0].messages, other.turns[0].messages) == 1
    assert one.turns[0].messages[0].role == "system"


def test_subagents_begin_alike_and_not_as_their_agent() -> None:
    spell = KeySpeller(WORDS)
    agents = [SMALL.session(number, spell) for number in range(60)]
    subagents = [one for agent in agents for turn in agent.turns for one in turn.subagents]
    assert len({one.name for one in subagents}) == len(subagents) > 20
    assert len({one.turns[0].messages[0] for one in subagents}) == 1
    beginnings = {one.turns[0].messages for one in subagents}
    assert len(beginnings) == len(subagents)
    assert agents[0].turns[0].messages[0] != subagents[0].turns[0].messages[0]
