"""What a form puts around an answer is taken off again; a text that is not of it stays as it is."""

import json

from hypothesis import given
from hypothesis import strategies as st

from agentrt.remote.constraints.json_filters import AbsentMembers, Unwrapper

LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4), st.floats(-9, 9))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "ab", '"', "null"]), inner, max_size=4),
    ),
    max_leaves=12,
)


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def fed(one, text, data):
    """The output for a text in pieces."""
    found = ""
    while text:
        size = data.draw(st.integers(1, len(text)))
        found += one.feed_text(text[:size])
        text = text[size:]
    return found


def without(value, names):
    if isinstance(value, list):
        return [without(one, names) for one in value]
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not (v is None and k in names)}
        return {k: without(v, names) for k, v in kept.items()}
    return value


@given(VALUES, st.data())
def test_a_value_comes_out_of_its_wrapper(value, data):
    one = Unwrapper()
    assert fed(one, compact({"value": value}), data) == compact(value)
    assert one.complete


@given(VALUES, st.data())
def test_another_object_stays_as_it_is(value, data):
    one = Unwrapper()
    assert fed(one, compact({"valued": value}), data) == compact({"valued": value})
    assert not one.complete


@given(VALUES, st.data())
def test_a_member_beside_the_value_is_not_dropped(value, data):
    text = fed(Unwrapper(), compact({"value": value, "more": 1}), data)
    assert text == compact(value) + ',"more":1'


@given(VALUES, st.sets(st.sampled_from(["a", "ab", '"', "null"])), st.data())
def test_absent_members_are_left_out(value, names, data):
    text = fed(AbsentMembers(frozenset(names)), compact(value), data)
    assert text == compact(without(value, names))
