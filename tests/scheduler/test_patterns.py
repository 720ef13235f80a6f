"""Where arguments come from, and when a guess is worth making."""

from typing import Any

from agentrt.scheduler.patterns import Patterns
from agentrt.scheduler.rule import Called, Guess


def searched(query: str, ok: bool = True) -> Called:
    return Called("search", {"query": query}, {"hits": [{"id": f"{query}1"}]} if ok else None, ok)


def learn(patterns: Patterns, *calls: tuple[tuple[Called, ...], str, dict[str, Any]]) -> None:
    for before, name, arguments in calls:
        patterns.learn("p", before, 0, name, arguments)


def test_an_argument_comes_from_a_result() -> None:
    patterns = Patterns()
    learn(patterns, *(((searched(q),), "fetch", {"page": f"{q}1", "size": 3}) for q in "abc"))
    (guess,) = patterns.guesses("p", (searched("z"),))
    assert guess == Guess("fetch", {"page": "z1", "size": 3}, 1.0, 2)


def test_an_argument_comes_from_an_argument() -> None:
    patterns = Patterns()
    learn(patterns, *(((searched(q),), "log", {"what": q}) for q in "abc"))
    (guess,) = patterns.guesses("p", (searched("z"),))
    assert guess.arguments == {"what": "z"}


def test_the_tool_before_the_last_one_counts_too() -> None:
    patterns = Patterns()
    last = Called("rank", {}, 7, True)
    learn(patterns, *(((last, searched(q)), "fetch", {"page": f"{q}1"}) for q in "abc"))
    (guess,) = patterns.guesses("p", (last, searched("z")))
    assert guess.arguments == {"page": "z1"}
    assert not list(patterns.guesses("p", (last,)))


def test_how_it_ended_counts() -> None:
    patterns = Patterns()
    learn(patterns, *(((searched(q),), "fetch", {"page": f"{q}1"}) for q in "abc"))
    assert not list(patterns.guesses("p", (searched("z", ok=False),)))
    assert not list(patterns.guesses("other", (searched("z"),)))


def test_what_cannot_be_foreseen_is_not_guessed() -> None:
    patterns = Patterns()
    before = (searched("a"),)
    learn(patterns, *((before, "fetch", {"page": f"random {n * n}"}) for n in range(9)))
    assert not list(patterns.guesses("p", before))


def test_a_rule_that_stops_being_right_is_given_up() -> None:
    patterns = Patterns()
    before = (searched("a"),)
    learn(patterns, *[(before, "one", {})] * 4)
    assert next(patterns.guesses("p", before)).tool == "one"
    learn(patterns, *((before, ("two", "three")[n % 2], {}) for n in range(6)))
    assert not list(patterns.guesses("p", before))


def test_a_result_that_is_shorter_this_time_gives_no_guess() -> None:
    patterns = Patterns()
    learn(patterns, *(((searched(q),), "fetch", {"page": f"{q}1"}) for q in "abc"))
    empty = Called("search", {"query": "z"}, {"hits": []}, True)
    assert not list(patterns.guesses("p", (empty,)))


def test_one_and_true_are_not_the_same() -> None:
    patterns = Patterns()
    for value in (1, 1, 1):
        patterns.learn("p", (Called("t", {"flag": True}, None, True),), 0, "u", {"n": value})
    (guess,) = patterns.guesses("p", (Called("t", {"flag": False}, None, True),))
    assert guess.arguments == {"n": 1}
