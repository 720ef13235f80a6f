"""Stop strings in streams cut anywhere."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.prompt.stop_strings import StopStrings


def run(text, stops, cuts):
    strings = StopStrings(stops)
    shown, at = "", 0
    for cut in [*sorted(cuts), len(text)]:
        if cut < at:
            continue
        passed = strings.feed(text[at:cut])
        shown += passed.text
        if passed.stop:
            return shown, passed.stop
        at = cut
    return shown + strings.flush(), ""


@pytest.mark.parametrize(
    ("text", "stops", "shown", "stop"),
    [
        ("one two", ("two",), "one ", "two"),
        ("one tw", ("two",), "one tw", ""),
        ("aab", ("ab",), "a", "ab"),
        ("a</end>b", ("</end>", "<"), "a", "</end>"),
        ("no stops", (), "no stops", ""),
    ],
)
@pytest.mark.parametrize("cuts", [(), (1, 2, 3, 4, 5, 6, 7)], ids=["whole", "letters"])
def test_text_ends_before_the_stop_string(text, stops, shown, stop, cuts):
    found = run(text, stops, cuts)
    assert found[0] == shown
    assert bool(found[1]) == bool(stop)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    text=st.text("ab<", max_size=14),
    stops=st.lists(st.text("ab<", min_size=1, max_size=4), min_size=1, max_size=3).map(tuple),
    cuts=st.lists(st.integers(0, 14), max_size=6),
)
def test_how_the_text_is_cut_does_not_matter(text, stops, cuts):
    shown, stop = run(text, stops, cuts)
    first = min((text.find(one) for one in stops if one in text), default=None)
    if first is None:
        assert (shown, stop) == (text, "")
    else:
        assert stop in stops
        assert shown == text[:first]


def test_only_what_may_become_a_stop_string_is_held_back():
    strings = StopStrings(("STOP",))
    assert strings.feed("abcS").text == "abc"
    assert strings.feed("T").text == ""
    assert strings.feed("x").text == "STx"
