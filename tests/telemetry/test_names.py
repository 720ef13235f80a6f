"""Names of attributes are those of the published conventions."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import (
    client_attributes,
    error_attributes,
    http_attributes,
    network_attributes,
    server_attributes,
    url_attributes,
    user_agent_attributes,
)

from agentrt.analysis import RunRecord
from agentrt.telemetry import build, names

EVENTS = {"gen_ai.client.inference.operation.details"}
"""Events of the conventions, for which their package has no constants."""


def published() -> set[str]:
    modules: tuple[Any, ...] = (
        *(client_attributes, error_attributes, gen_ai_attributes, http_attributes),
        *(network_attributes, server_attributes, url_attributes, user_agent_attributes),
    )
    return {value for module in modules for value in vars(module).values() if type(value) is str}


def ours() -> Iterator[str]:
    for value in vars(names).values():
        yield from [value] if isinstance(value, str) else []
    yield from names.CONTENT


def test_names_of_the_conventions_are_published() -> None:
    said = {name for name in ours() if name.startswith(("gen_ai.", "error.", "server."))}
    assert len(said) > 20
    assert said <= published() | EVENTS


@pytest.mark.parametrize("operation", ["chat", "execute_tool", "invoke_workflow"])
def test_operations_are_published(operation: str, finance: list[Any]) -> None:
    known = {one.value for one in gen_ai_attributes.GenAiOperationNameValues}
    known.add("invoke_workflow")  # since 1.41; the package stands at less
    record = RunRecord()
    record.on_events(finance)
    told = {span.attributes.get(names.OPERATION) for span in build(record).spans}
    assert operation in told
    assert told - {None} <= known


def test_all_attributes_of_a_run_are_published_or_our_own(finance: list[Any]) -> None:
    record = RunRecord()
    record.on_events(finance)
    found = {name for span in build(record).spans for name in span.attributes}
    others = {name for name in found if not name.startswith(("agentrt.", "openinference."))}
    assert others <= published()
