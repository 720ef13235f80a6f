"""Shorter versions of a chat: what may go, in which order, and what stays."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt import Chat, Overflow, chat, trim
from agentrt.base.errors import PromptPart
from agentrt.program.trimming import Trimmings

ROLE = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}


def built(letters: str) -> Chat:
    """A message a letter, numbered."""
    return Chat.of({"role": ROLE[x], "content": f"{x}{i}"} for i, x in enumerate(letters))


def written(made: Chat) -> str:
    return " ".join(message["content"] for message in made.messages())


@pytest.mark.parametrize(
    ("letters", "cuts"),
    [
        ("su", []),
        ("s", []),
        ("", []),
        ("ua", []),
        ("suau", ["s0 u3"]),
        ("suauau", ["s0 u3 a4 u5", "s0 u5"]),
        ("sattu", ["s0 u4"]),
        ("suatat", ["s0 u1 a4 t5"]),
        ("uatattau", ["u7"]),
        ("suauatattat", ["s0 u3 a4 t5 a6 t7 t8 a9 t10", "s0 u3 a6 t7 t8 a9 t10", "s0 u3 a9 t10"]),
        ("ssuuau", ["s0 s1 u5"]),
        ("aa", []),
    ],
)
def test_what_goes_first(letters: str, cuts: list[str]) -> None:
    made = Trimmings(built(letters))
    assert [written(cut) for cut in made] == cuts
    assert [written(cut) for cut in made[:]] == cuts


@given(st.text("suat", max_size=24))
def test_cuts_leave_the_head_the_question_and_the_end(letters: str) -> None:
    whole = built(letters)
    before = written(whole).split()
    head = next((i for i, x in enumerate(letters) if x != "s"), len(letters))
    for cut in Trimmings(whole):
        left = written(cut).split()
        assert len(left) < len(before), "each is shorter than the one before it"
        assert left[:head] == [f"s{i}" for i in range(head)]
        assert left[-1] == f"{letters[-1]}{len(letters) - 1}"
        assert sorted(left, key=lambda word: int(word[1:])) == left
        if "u" in letters[head:]:
            asked = f"u{letters.rindex('u')}"
            assert asked in left
        before = left


def overflow(letters: str, window_tokens: int, max_tokens: int = 2, least_tokens: int = 1) -> Any:
    """An overflow where each message is a token."""
    whole = built(letters)
    return Overflow(
        whole,
        (PromptPart("all", len(letters)),),
        len(letters),
        window_tokens,
        max_tokens,
        least_tokens,
        lambda made: len(made.messages()),
    )


def test_trim_goes_down_to_three_quarters() -> None:
    """Of what leaves room for the output; the next turns then need no cut."""
    assert written(trim(overflow("suauauau", 10)) or chat()) == "s0 u3 a4 u5 a6 u7"
    assert written(trim(overflow("suauauau", 9)) or chat()) == "s0 u5 a6 u7"
    assert written(trim(overflow("suauauau", 7)) or chat()) == "s0 u7"


def test_trim_takes_what_holds_the_smallest_output_at_least() -> None:
    """Where nothing leaves room for all of the output, a little room is better than none."""
    given = overflow("suatat", 5, max_tokens=2)
    assert given.target_tokens == 3
    assert not given.fits(Trimmings(given.chat)[0])
    assert written(trim(given) or chat()) == "s0 u1 a4 t5"
    assert trim(overflow("suatat", 5, least_tokens=2)) is None
    assert trim(overflow("su", 1)) is None


def test_half_of_the_window_is_left_at_most() -> None:
    assert overflow("su", 100, max_tokens=30).target_tokens == 70
    assert overflow("su", 100, max_tokens=5000).target_tokens == 50


def test_trim_where_only_the_engine_can_count() -> None:
    blind = Overflow(built("suauauau"))
    assert blind.fits(blind.chat)
    assert written(trim(blind) or chat()) == "s0 u5 a6 u7"
    assert trim(Overflow(built("su"))) is None
