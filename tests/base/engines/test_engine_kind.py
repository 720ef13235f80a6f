"""Kinds of servers are data: each line has its document, and names what requests know."""

from dataclasses import fields

import pytest

from agentrt.base.engines.engine_kind import ANY_KIND, engine_kind, kind_names
from agentrt.base.engines.remote_engine_config import base_url
from agentrt.base.sampling_params import SamplingParams

PARAMETERS = {one.name for one in fields(SamplingParams)} | {"cache_salt"}


def test_an_unknown_server_is_probed_and_no_other() -> None:
    assert ANY_KIND in kind_names()
    assert [name for name in kind_names() if engine_kind(name).is_probed] == [ANY_KIND]


@pytest.mark.parametrize("name", kind_names())
def test_a_kind_is_whole(name: str) -> None:
    kind = engine_kind(name)
    assert kind.title
    if kind.address:
        assert base_url(kind.address) == kind.address
    of_fields = [one.source for one in kind.fields.values()]
    of_constraints = [one.source for one in kind.constraints.values()]
    if kind.tokens is not None:
        of_constraints += [one.source for one in kind.tokens.constraints.values()]
        of_constraints.append(kind.tokens.source)
    for source in [*kind.sources.values(), *of_fields, *of_constraints]:
        assert source.startswith("https://") or source == "docs/serving.md"
    assert set(kind.fields) <= PARAMETERS
    assert kind.is_probed or {"max_tokens", "temperature"} <= set(kind.fields)


def test_ids_are_for_servers_of_open_models_alone() -> None:
    able = [name for name in kind_names() if engine_kind(name).tokens is not None]
    assert able == ["agentrt", "sglang", "vllm"]
