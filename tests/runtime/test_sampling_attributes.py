"""Generations tell their sampling parameters in the words of OpenTelemetry's conventions."""

import json
from pathlib import Path
from typing import Any

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from agentrt import chat, program
from agentrt.telemetry import JaegerFile, build
from agentrt.telemetry.reading import read
from agentrt.testing import ScriptedRuntime

GIVEN: dict[str, Any] = {
    "max_tokens": 9,
    "temperature": 0.5,
    "seed": 3,
    "top_p": 0.9,
    "top_k": 4,
    "stop": ["END", "a, b"],
    "presence_penalty": 0.25,
    "frequency_penalty": -0.5,
}


@program
async def asks(given: dict[str, Any]) -> str:
    return await chat().user("Name a river.").generate(name="river", **given)


def told(given: dict[str, Any]) -> dict[str, Any]:
    run = ScriptedRuntime(["Nile"]).run(asks, given)
    (node,) = [one for one in run.record.nodes.values() if one.kind == "generate"]
    attributes = dict(node.declared.attributes)
    return {key: attributes[key] for key in attributes if key.startswith("gen_ai.request.")}


def test_all_that_were_chosen_are_told() -> None:
    found = told(GIVEN)
    assert found.pop("gen_ai.request.stop_sequences") == ("END", "a, b")
    for name in ("max_tokens", "top_p", "top_k", "presence_penalty", "frequency_penalty"):
        assert found[f"gen_ai.request.{name}"] == GIVEN[name]
    published = {one for one in vars(gen_ai_attributes).values() if isinstance(one, str)}
    assert {key for key in found if key not in published} == set()


def test_those_that_do_nothing_are_left_out() -> None:
    shortest = {f"gen_ai.request.{name}" for name in ("max_tokens", "temperature", "seed")}
    assert set(told({})) == shortest


def test_stop_strings_come_back_from_a_file(tmp_path: Path) -> None:
    run = ScriptedRuntime(["Nile"]).run(asks, GIVEN)
    path = JaegerFile(tmp_path).export([build(run.record)])
    (span,) = [one for one in read(path)[0].spans if one.name == "chat river"]
    assert span.attributes["gen_ai.request.stop_sequences"] == ("END", "a, b")
    assert json.loads(path.read_text("utf-8"))["data"]
