"""Where arguments come from, and when a guess is worth making."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.scheduler.estimates.call_model import CallGuess, EndedCall
from agentrt.scheduler.estimates.call_patterns import MAX_MODELS, CallPatterns
from agentrt.scheduler.estimates.row import CALLS, EstimateRow


def searched(query: str, ok: bool = True) -> EndedCall:
    return EndedCall(
        "search", {"query": query}, {"hits": [{"id": f"{query}1"}]} if ok else None, ok
    )


def learn(
    patterns: CallPatterns, *calls: tuple[tuple[EndedCall, ...], str, dict[str, Any]]
) -> None:
    for before, name, arguments in calls:
        patterns.learn_call("p", before, 0, name, arguments)


def test_an_argument_comes_from_a_result() -> None:
    patterns = CallPatterns()
    learn(patterns, *(((searched(q),), "fetch", {"page": f"{q}1", "size": 3}) for q in "abc"))
    (guess,) = patterns.guesses("p", (searched("z"),))
    assert guess == CallGuess("fetch", {"page": "z1", "size": 3}, 1.0, 2)


def test_an_argument_comes_from_an_argument() -> None:
    patterns = CallPatterns()
    learn(patterns, *(((searched(q),), "log", {"what": q}) for q in "abc"))
    (guess,) = patterns.guesses("p", (searched("z"),))
    assert guess.arguments == {"what": "z"}


def test_the_tool_before_the_last_one_counts_too() -> None:
    patterns = CallPatterns()
    last = EndedCall("rank", {}, 7, True)
    learn(patterns, *(((last, searched(q)), "fetch", {"page": f"{q}1"}) for q in "abc"))
    (guess,) = patterns.guesses("p", (last, searched("z")))
    assert guess.arguments == {"page": "z1"}
    assert not list(patterns.guesses("p", (last,)))


def test_how_it_ended_counts() -> None:
    patterns = CallPatterns()
    learn(patterns, *(((searched(q),), "fetch", {"page": f"{q}1"}) for q in "abc"))
    assert not list(patterns.guesses("p", (searched("z", ok=False),)))
    assert not list(patterns.guesses("other", (searched("z"),)))


def test_what_cannot_be_foreseen_is_not_guessed() -> None:
    patterns = CallPatterns()
    before = (searched("a"),)
    learn(patterns, *((before, "fetch", {"page": f"random {n * n}"}) for n in range(9)))
    assert not list(patterns.guesses("p", before))


def test_a_rule_that_stops_being_right_is_given_up() -> None:
    patterns = CallPatterns()
    before = (searched("a"),)
    learn(patterns, *[(before, "one", {})] * 4)
    assert next(patterns.guesses("p", before)).tool == "one"
    learn(patterns, *((before, ("two", "three")[n % 2], {}) for n in range(6)))
    assert not list(patterns.guesses("p", before))


def test_a_result_that_is_shorter_this_time_gives_no_guess() -> None:
    patterns = CallPatterns()
    learn(patterns, *(((searched(q),), "fetch", {"page": f"{q}1"}) for q in "abc"))
    empty = EndedCall("search", {"query": "z"}, {"hits": []}, True)
    assert not list(patterns.guesses("p", (empty,)))


def test_one_and_true_are_not_the_same() -> None:
    patterns = CallPatterns()
    for value in (1, 1, 1):
        patterns.learn_call(
            "p", (EndedCall("t", {"flag": True}, None, True),), 0, "u", {"n": value}
        )
    (guess,) = patterns.guesses("p", (EndedCall("t", {"flag": False}, None, True),))
    assert guess.arguments == {"n": 1}


def test_what_is_always_the_same_counts_where_nothing_else_explains() -> None:
    patterns = CallPatterns()
    for query, unit in (("a", "km"), ("b", "km"), ("c", "mile"), ("d", "mile"), ("e", "mile")):
        patterns.learn_call("p", (searched(query),), 0, "fetch", {"unit": unit})
    (guess,) = patterns.guesses("p", (searched("z"),))
    assert guess.arguments == {"unit": "mile"}, "the last ones weigh most"
    assert 0.5 < guess.probability < 0.8


def test_a_rule_that_was_right_for_long_is_given_up_within_a_few_calls() -> None:
    patterns = CallPatterns()
    before = (searched("a"),)
    learn(patterns, *[(before, "one", {})] * 500)
    wrong = 0
    while list(patterns.guesses("p", before)):
        learn(patterns, (before, f"other{wrong}", {}))
        wrong += 1
    assert wrong == 7


STORIES = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["fetch", "log"]),
        st.dictionaries(
            st.sampled_from(["page", "size"]),
            st.one_of(st.sampled_from(["a1", "b1", "c1", "a"]), st.integers(0, 2), st.booleans()),
            max_size=2,
        ),
    ),
    max_size=15,
)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(STORIES, st.sampled_from("abcz"))
def test_what_is_kept_guesses_no_other_call(story: Any, query: str) -> None:
    """Where all values are public, another process guesses what this one would have, or nothing."""
    patterns = CallPatterns()
    for word, name, arguments in story:
        patterns.learn_call("p", (searched(word),), 0, name, arguments, list(arguments))
    here = list(patterns.guesses("p", (searched(query),)))
    there = list(CallPatterns(patterns.rows()).guesses("p", (searched(query),)))
    assert there == here or not there


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.text(min_size=8, max_size=20), min_size=1, max_size=6))
def test_no_value_is_kept_that_is_not_public(secrets: list[str]) -> None:
    patterns = CallPatterns()
    for secret in [*secrets, *secrets]:
        before = (EndedCall("search", {"q": secret}, {"hits": [secret]}, True),)
        patterns.learn_call("p", before, 0, "fetch", {"page": secret, "as": secrets[0]})
    kept = " ".join(name for row in patterns.rows() for name in row.sums)
    assert not [secret for secret in secrets if json.dumps(secret, ensure_ascii=False) in kept]


def test_processes_of_one_run_each_learn_together() -> None:
    rows: list[EstimateRow] = []
    for query in "abc":
        patterns = CallPatterns(rows)
        learn(patterns, ((searched(query),), "fetch", {"page": f"{query}1"}))
        rows = patterns.changed_rows()
    (guess,) = CallPatterns(rows).guesses("p", (searched("z"),))
    assert guess == CallGuess("fetch", {"page": "z1"}, 1.0, 2)
    assert set(rows[0].sums) == {
        "tried",
        "hits",
        '["fetch"]',
        '["fetch","page"]',
        '["fetch","page",0,"result","hits",0,"id"]',
    }


def test_patterns_without_end_do_not_fill_the_memory() -> None:
    patterns = CallPatterns()
    for number in range(2 * MAX_MODELS):
        learn(patterns, *[((searched("a", ok=number % 2 == 0),), "t", {})] * 2)
        patterns.learn_call(f"p{number}", (), 0, "t", {"many": list(range(200))})
    assert len(list(patterns.models())) <= MAX_MODELS
    assert list(patterns.guesses("p", (searched("a"),))), "what is used stays"


@pytest.mark.parametrize(
    "name", ["x", "3", "[]", "[1]", '["t",1]', '["t","a",7]', '["t","a","always","{"]', "[" * 9999]
)
def test_a_row_of_another_kind_is_refused(name: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        CallPatterns(
            [EstimateRow("p", "search", 0, CALLS, 3, {"tried": 2.0, "hits": 2.0, name: 3.0})]
        )
