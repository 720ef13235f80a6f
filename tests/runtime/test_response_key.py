"""Keys of the response cache: equal for equal questions to equal engines, and for no others."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.base.segments import CallMade, Close, Generated, Open, ResultOf, Text, ToolSchema
from agentrt.protocol.backend import GenerateRequest, MessagePrompt, TokenPrompt
from agentrt.runtime.response_cache.key import response_key

TOOL = ToolSchema("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})
MESSAGES = MessagePrompt(
    (
        *(Open("user"), Text("Where?"), Close()),
        *(Open("assistant"), Generated("x", (1, 2), "c", (CallMade("1", "look", "{}"),), "y", "z")),
        *(Close(), Open("tool"), ResultOf("1", "look"), Text("here"), Close()),
    ),
    (TOOL,),
)
ASKED = GenerateRequest(
    RequestId(1),
    RunId("0" * 16),
    NodeId("job#0/generate#0"),
    "job.py:3",
    MESSAGES,
    SamplingParams(
        temperature=0.5,
        top_k=3,
        top_p=0.5,
        min_p=0.25,
        presence_penalty=0.5,
        frequency_penalty=0.5,
        repetition_penalty=1.5,
        seed=7,
        stop=("\n",),
    ),
    ConstraintSpec("calls", "{}", ("a",), (TOOL,)),
    thinking_tokens=5,
    cache_salt="s",
)
OF_TOKENS = replace(ASKED, prompt=TokenPrompt((1, 2, 3)))
ENGINE = {"engine": "http://a", "model": "m", "codec": "c", "tenant": "t"}
NOT_IN_KEY = {
    *("request_id", "run_id", "node_id", "site", "demanded", "deadline_at_s", "submitted_at_s"),
    *("info", "gives_back", "traceparent"),
}
LITERALS = {"raise": "close", "compact": "spaced", "calls": "json", "user": "system"}
LITERALS |= {"assistant": "user", "tool": "user"}


def changed(value: Any) -> Iterator[Any]:
    """Values that differ from this one in one place, however deep."""
    if is_dataclass(value):
        for one in fields(value):
            if one.name not in NOT_IN_KEY:
                for other in changed(getattr(value, one.name)):
                    yield replace(value, **{one.name: other})  # type: ignore[type-var]
    elif isinstance(value, tuple):
        for at, part in enumerate(value):
            yield value[:at] + value[at + 1 :]
            for other in changed(part):
                yield (*value[:at], other, *value[at + 1 :])
    elif isinstance(value, dict):
        for name, part in value.items():
            for other in changed(part):
                yield value | {name: other}
        if len(value) > 1:
            yield dict(reversed(value.items()))  # the order of keys is part of a prompt
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, str):
        yield LITERALS.get(value, value + "x")
    elif isinstance(value, int):
        yield value + 1
    elif isinstance(value, float):
        yield value * 0.875


@pytest.mark.parametrize("asked", [ASKED, OF_TOKENS])
def test_every_changed_field_changes_the_key(asked: GenerateRequest) -> None:
    others = list(changed(asked))
    keys = {response_key(one, **ENGINE) for one in others}
    assert len(keys) > 35
    assert response_key(asked, **ENGINE) not in keys
    told = {str(one): response_key(one, **ENGINE) for one in others}
    assert len(set(told.values())) == len(told), "and no two of them are the same"


@pytest.mark.parametrize("name", sorted(ENGINE))
def test_engine_and_tenant_are_part_of_the_key(name: str) -> None:
    other = ENGINE | {name: ENGINE[name] + "x"}
    assert response_key(ASKED, **ENGINE) != response_key(ASKED, **other)


def test_the_node_and_its_urgency_are_not() -> None:
    other = replace(
        ASKED,
        request_id=RequestId(2),
        run_id=RunId("1" * 16),
        node_id=NodeId("other#0"),
        site="other.py:1",
        demanded=False,
        deadline_at_s=3.0,
        submitted_at_s=4.0,
        gives_back=True,
    )
    assert response_key(ASKED, **ENGINE) == response_key(other, **ENGINE)


def test_the_seed_counts_where_tokens_are_drawn() -> None:
    greedy = replace(ASKED, sampling=SamplingParams(seed=1))
    same = replace(ASKED, sampling=SamplingParams(seed=2, temperature=0))
    assert response_key(greedy, **ENGINE) == response_key(same, **ENGINE)
    drawn = replace(ASKED, sampling=SamplingParams(seed=1, temperature=1.0))
    other = replace(ASKED, sampling=SamplingParams(seed=2, temperature=1.0))
    assert response_key(drawn, **ENGINE) != response_key(other, **ENGINE)


texts = st.text(st.sampled_from('ab"\\\x00'), max_size=4)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(*[st.tuples(*[texts] * 6)] * 2)
def test_no_two_questions_run_together(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    """Texts that are equal end to end have different keys if they are cut in other places."""

    def key(parts: tuple[str, ...]) -> str:
        engine, model, codec, tenant, first, second = parts
        prompt = MessagePrompt((Open("user"), Text(first), Text(second), Close()))
        asked = replace(ASKED, prompt=prompt)
        return response_key(asked, engine=engine, model=model, codec=codec, tenant=tenant)

    assert (key(one) == key(other)) is (one == other)
