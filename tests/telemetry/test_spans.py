"""What the spans of a run say."""

import json
import math
from typing import Any

import pytest

from agentrt.analysis import RunRecord
from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.protocol.events import (
    FirstToken,
    NodeDeclared,
    NodeFinished,
    PrefixLost,
    RequestSent,
    RunFinished,
    RunStarted,
    ToolEnded,
    ToolStarted,
)
from agentrt.protocol.step_output import DraftCount, Ledger, StepDone, StepRecord
from agentrt.telemetry import Span, Trace, build
from agentrt.telemetry.jaeger import jaeger_json
from agentrt.telemetry.resource import resources_of
from tests.oracles import jaeger
from tests.oracles.statements import Work

RUN = RunId("00000000000000a1")


def test_generations_carry_usage_and_first_token(finance: list[Any], recorded: Any) -> None:
    record = recorded((Work("generate", queue_s=0.1, prefill_s=0.1, decode_s=0.2),))
    chat = next(span for span in build(record).spans if span.name.startswith("chat"))
    assert chat.attributes["gen_ai.usage.input_tokens"] == 100
    assert chat.attributes["gen_ai.usage.cache_read.input_tokens"] == 60
    assert chat.attributes["gen_ai.provider.name"] == "agentrt"
    assert chat.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert chat.attributes["gen_ai.response.time_to_first_chunk"] == pytest.approx(0.2)
    assert [event.name for event in chat.events] == ["agentrt.first_token"]
    assert chat.events[0].at_us - chat.start_us == 200_000
    engine = [span for span in build(record).spans if span.service == "engine"]
    assert [span.name for span in engine] == ["engine.queue", "engine.prefill", "engine.decode"]
    assert not any(key.startswith("gen_ai.") for span in engine for key in span.attributes)


def test_drafted_tokens_are_told_by_source() -> None:
    drafts = (DraftCount("site", 7, 2), DraftCount("prompt", 0, 3))
    record = RunRecord()
    root, made = NodeId("p#0"), NodeId("p#0/g#0")
    ledger = Ledger(finished_at_s=6.0, output_tokens=9, drafts=drafts)
    record.on_events(
        [
            RunStarted(RUN, "p", "p.py:p", 5.0, 1_700_000_000_000_000_000),
            NodeDeclared(RUN, root, "program", "p", None, (), "p.py:1", 5.0),
            NodeDeclared(RUN, made, "generate", "g", root, (), "p.py:2", 5.0),
            RequestSent(RUN, made, RequestId(1), "embedded", "tiny", True, 5.0),
            NodeFinished(RUN, made, "ok", 6.0, ledger=ledger),
            NodeFinished(RUN, root, "ok", 6.0),
            RunFinished(RUN, "ok", 6.0),
        ]
    )
    chat = next(span for span in build(record).spans if span.name.startswith("chat"))
    told = {key: value for key, value in chat.attributes.items() if ".draft." in key}
    assert told == {
        "agentrt.draft.site.accepted_tokens": 7,
        "agentrt.draft.site.rejected_tokens": 2,
        "agentrt.draft.prompt.rejected_tokens": 3,
    }


def test_a_generation_without_a_ledger_has_few_spans() -> None:
    """Its engine died after many steps: what was seen of them becomes stages, not a span each."""
    root, made = NodeId("p#0"), NodeId("p#0/g#0")
    request = RequestId(1)
    steps = [
        StepDone(StepRecord(n, 5.1 + n, 5.9 + n, 0, 1, (request,)), (), ()) for n in range(100)
    ]
    error = ErrorRecord("EngineDied", "killed")
    record = RunRecord()
    record.on_events(
        [
            RunStarted(RUN, "p", "p.py:p", 5.0, 1_700_000_000_000_000_000),
            NodeDeclared(RUN, root, "program", "p", None, (), "p.py:1", 5.0),
            NodeDeclared(RUN, made, "generate", "g", root, (), "p.py:2", 5.0),
            RequestSent(RUN, made, request, "embedded", "tiny", True, 5.0),
            FirstToken(RUN, made, 5.9),
            *steps,
            NodeFinished(RUN, made, "failed", 105.0, error=error),
            NodeFinished(RUN, root, "failed", 105.0, error=error),
            RunFinished(RUN, "failed", 105.0, error),
        ]
    )
    names = [span.name for span in build(record).spans]
    assert names == [
        "invoke_workflow p",
        "chat g",
        "engine.queue",
        "engine.prefill",
        "engine.decode",
    ]


def test_attempts_of_a_tool_are_told_apart() -> None:
    root, made = NodeId("p#0"), NodeId("p#0/t#0")
    broken = ErrorRecord("ConnectionError", "refused, with key sk-abcdefghijkl")
    record = RunRecord()
    record.on_events(
        [
            RunStarted(RUN, "p", "p.py:p", 5.0, 1_700_000_000_000_000_000),
            NodeDeclared(RUN, root, "program", "p", None, (), "p.py:1", 5.0),
            NodeDeclared(RUN, made, "tool", "t", root, (), "p.py:2", 5.0),
            ToolStarted(RUN, made, 1, 5.1),
            ToolEnded(RUN, made, 1, 5.2, broken),
            ToolStarted(RUN, made, 2, 5.5),
            ToolEnded(RUN, made, 2, 5.6),
            NodeFinished(RUN, made, "ok", 5.6),
            NodeFinished(RUN, root, "ok", 5.6),
            RunFinished(RUN, "ok", 5.6),
        ]
    )
    root_span, tool, first, second = build(record).spans
    assert root_span.attributes["agentrt.retries"] == 1
    assert tool.attributes["agentrt.attempt"] == 2
    assert (first.error, second.error) == (broken.type, None)
    shown = build(record, "SPAN_ONLY").spans[2]
    assert shown.error == "refused, with key [redacted]"
    assert first.end_us + 300_000 == second.start_us


def test_what_went_otherwise_than_wished_is_told() -> None:
    root, made = NodeId("p#0"), NodeId("p#0/g#0")
    record = RunRecord()
    record.on_events(
        [
            RunStarted(RUN, "p", "p.py:p", 5.0, 1_700_000_000_000_000_000, deadline_s=0.5, seed=7),
            NodeDeclared(RUN, root, "program", "p", None, (), "p.py:1", 5.0),
            NodeDeclared(RUN, made, "generate", "g", root, (), "p.py:2", 5.0),
            PrefixLost(RUN, made, 412, "other_model", 5.0),
            NodeFinished(RUN, made, "ok", 6.0, closed_early=True, finish_reason="length"),
            NodeFinished(RUN, root, "ok", 6.0),
            RunFinished(RUN, "ok", 6.0),
        ]
    )
    run, chat = build(record).spans
    assert run.attributes["agentrt.slo.deadline_ms"] == 500.0
    assert run.attributes["agentrt.slo.met"] is False
    assert run.attributes["agentrt.seed"] == 7
    assert chat.attributes["agentrt.closed_early"] is True
    assert chat.attributes["agentrt.prefix.lost_tokens"] == 412
    assert chat.attributes["agentrt.prefix.lost_reason"] == "other_model"


def test_every_kind_of_value_has_its_tag() -> None:
    told: dict[str, Any] = {
        "text": 'quote " and é',
        "flag": True,
        "count": 3,
        "seed": 2**62 + 1,
        "share": 0.5,
        "none": math.nan,
        "listed": ("a", "b"),
    }
    span = Span("s", "0000000000000001", None, 5, 5, attributes=told, error="it broke")
    trace = Trace("1" * 32, "t", (span,))
    document = json.loads(jaeger_json([trace], resources_of({})))
    assert jaeger.faults(document) == []
    (found,) = document["data"][0]["spans"]
    assert found["duration"] == 1
    tags = {tag["key"]: (tag["type"], tag["value"]) for tag in found["tags"]}
    assert tags["text"] == ("string", 'quote " and é')
    assert tags["flag"] == ("bool", True)
    assert tags["count"] == ("int64", 3)
    assert tags["seed"] == ("string", str(2**62 + 1))  # a browser would round it
    assert tags["share"] == ("float64", 0.5)
    assert tags["none"] == ("float64", 0.0)
    assert tags["listed"] == ("string", '["a","b"]')
    assert tags["error"] == ("bool", True)
