"""Fields by which a server holds a model to a constraint."""

import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.engines.engine_kind import engine_kind
from agentrt.remote.body import build_request, forms_of
from agentrt.remote.constraints.constraint_dialects import dialects_named
from agentrt.remote.remote_server import RemoteServer, field_names
from tests.remote.protocols.requests import NEWS, PRICE, request

CALLS = ConstraintSpec("calls", tools=(PRICE, NEWS), max_calls=2)


def server_of(name, *calls):
    """A server of a kind, or one that has proven these dialects of calls."""
    kind = engine_kind(name)
    proven = {name: one.dialects for name, one in kind.constraints.items()}
    if calls:
        proven["calls"] = calls
    return RemoteServer(
        *("http://here/v1", "m"),
        family=kind.family,
        fields=field_names(kind),
        proven=dialects_named(proven),
    )


def functions(server):
    """The functions that the surest form of calls offers."""
    asked = request(tools=(PRICE, NEWS), spec=CALLS)
    body = build_request(asked, server, forms_of(asked, server)[0]).body
    assert body["tool_choice"] == "required"
    assert body["parallel_tool_calls"] is True
    return [tool["function"] for tool in body["tools"]]


def test_vllm_holds_the_arguments_of_strict_tools_alone():
    assert [one["strict"] for one in functions(server_of("vllm"))] == [True, True]


@pytest.mark.parametrize("kind", ["agentrt", "llama-server", "litellm"])
def test_other_servers_get_no_field_that_they_may_refuse(kind):
    assert not any("strict" in one for one in functions(server_of(kind)))


def test_strict_tools_come_first_where_both_were_proven():
    found = functions(server_of("vllm", "tools, strict", "tools"))
    assert [one["strict"] for one in found] == [True, True]


def test_a_hosted_api_gets_no_strict_tools():
    """It takes only a subset of schemas in them."""
    found = functions(server_of("openai", "tools, strict", "tools"))
    assert not any("strict" in one for one in found)
