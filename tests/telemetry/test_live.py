"""Live spans in a tracer provider of the process, and their account after the run."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from opentelemetry import trace
from opentelemetry.propagate import inject
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from agentrt import RunConfig, ask, chat, program, tool
from agentrt.base.clock import MonotonicClock
from agentrt.base.errors import ToolFailed
from agentrt.protocol.events import RunFinished
from agentrt.runtime import RunOptions, Runtime
from agentrt.telemetry import SpanObserver, names
from agentrt.testing import ScriptedBackend
from tests.oracles.http_answers import answering
from tests.telemetry.provider import KeptSpans, is_child, orphans

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
BY_THE_RUN = {
    *(names.NODE_SLACK_MS, names.CRITICAL, names.NODE_DECLARED_MS, names.NODE_ORDER),
    *(names.NODE_DEMANDED_MS, names.NODE_AFTER, names.NODE_ENDED_MS, names.NODE_END_AFTER),
    *(names.NODE_STAGES, names.STAGE_MS.format("queue"), "span.kind", "otel.scope.name"),
}
"""Attributes that spans of nodes have in files only."""
SYSTEM = chat(system="Be brief.")


class Seen:
    def __init__(self) -> None:
        self.events: list[Any] = []

    def on_events(self, events: Sequence[Any]) -> None:
        self.events += events


def run(
    body: Any,
    *arguments: Any,
    provider: TracerProvider | None = None,
    observers: Sequence[Any] = (),
    options: RunOptions | None = None,
) -> Any:
    """Run a program on the scripted engine, and close its runtime."""

    async def main() -> Any:
        backend = ScriptedBackend(lambda request, prompt: "7", clock=MonotonicClock())
        async with Runtime(
            {"default": (backend, None)},
            observers=observers,
            tracer_provider=provider,
            config=RunConfig(blocking_call_s=0),
        ) as runtime:
            return await runtime.with_options(options or RunOptions()).run(body, *arguments)

    return anyio.run(main)


@tool(effects="read")
def look_up(symbol: str) -> int:
    """The price of a symbol."""
    trace.get_current_span().set_attribute("shop.symbol", symbol)
    with trace.get_tracer("shop").start_as_current_span("SELECT price"):
        return len(symbol)


@tool(effects="pure")
async def halve(number: int) -> float:
    """Half of it."""
    if number < 0:
        raise ValueError("below zero")
    return number / 2


@program
async def part(number: int) -> float:
    return await halve(number)


@program
async def advise(symbol: str) -> str:
    price = look_up(symbol)
    plan = SYSTEM.user("Plan for ", price).generate(name="plan")
    half = await part(await price)
    await SYSTEM.user("Report ", plan, " and ", str(half)).generate(int, name="report")
    return f"half is {half}"


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> KeptSpans:
    """The provider of the process, which libraries of the user find by themselves."""
    made = KeptSpans()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: made.provider)
    monkeypatch.setattr(trace, "get_tracer", made.provider.get_tracer)
    return made


def test_what_code_opens_hangs_below_its_node(kept: KeptSpans) -> None:
    caller = trace.get_tracer("web").start_span("GET /advice")
    with trace.use_span(caller, end_on_exit=True):
        run(advise, "IBM")
    root, lookup = kept.named("invoke_workflow advise"), kept.named("execute_tool look_up")
    assert is_child(root, kept.named("GET /advice"))
    assert is_child(kept.named("SELECT price"), lookup)
    assert lookup.attributes is not None
    assert lookup.attributes["shop.symbol"] == "IBM"
    assert lookup.attributes["gen_ai.operation.name"] == "execute_tool"
    for name in ("execute_tool look_up", "chat plan", "chat report", "invoke_workflow part"):
        assert is_child(kept.named(name), root)
    assert is_child(kept.named("execute_tool halve"), kept.named("invoke_workflow part"))
    assert orphans(kept.all) == []
    assert kept.names()[-2:] == ["invoke_workflow advise", "GET /advice"]


def test_stages_of_the_engine_hang_below_their_generation(kept: KeptSpans) -> None:
    run(advise, "IBM")
    plan, report = kept.named("chat plan"), kept.named("chat report")
    stages = [span for span in kept.all if span.name.startswith("engine.")]
    assert stages
    assert all(is_child(stage, plan) or is_child(stage, report) for stage in stages)
    root = kept.named("invoke_workflow advise").attributes
    assert root is not None
    assert root["agentrt.latency.compound_ms"] > 0  # type: ignore[operator]
    assert "advise#0/report#0" in root["agentrt.critical_path.nodes"]  # type: ignore[operator]
    links = {link.context.span_id for link in report.links}
    assert plan.context is not None
    assert plan.context.span_id in links


def test_both_accounts_have_the_same_ids_and_nothing_twice(kept: KeptSpans, tmp_path: Path) -> None:
    observer, seen = SpanObserver(folder=tmp_path, environment={}), Seen()
    run(advise, "IBM", observers=[observer, seen])
    observer.close()
    (path,) = observer.files.values()
    (told,) = json.loads(path.read_text("utf-8"))["data"]
    live = {f"{span.context.span_id:016x}": span for span in kept.all if span.context}
    assert len(live) == len(kept.all)
    nodes = {
        span["spanID"]: span["operationName"]
        for span in told["spans"]
        if span["operationName"].split()[0] in ("chat", "execute_tool", "invoke_workflow")
    }
    assert nodes == {span_id: live[span_id].name for span_id in nodes}
    assert {f"{span.context.trace_id:032x}" for span in live.values() if span.context} == {
        told["traceID"]
    }
    (finished,) = [event for event in seen.events if isinstance(event, RunFinished)]
    assert set(finished.span_ids.values()) == set(nodes)


def plain(value: Any) -> Any:
    """A value of an attribute as a Jaeger file has it."""
    if isinstance(value, tuple):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value) if isinstance(value, int) and abs(value) > 2**53 else value


def test_a_live_span_tells_what_the_file_tells_of_its_node(kept: KeptSpans, tmp_path: Path) -> None:
    """The file has more: what the whole run tells, as the provider gets it with the root."""
    observer = SpanObserver(folder=tmp_path, environment={})
    run(advise, "IBM", observers=[observer])
    observer.close()
    (path,) = observer.files.values()
    (trace_of_run,) = json.loads(path.read_text("utf-8"))["data"]
    spans = {span["spanID"]: span for span in trace_of_run["spans"]}
    compared = 0
    for live in kept.all:
        assert live.context is not None
        told = spans.get(f"{live.context.span_id:016x}")
        if told is None:
            assert live.name.startswith(("engine.", "SELECT"))
            continue
        compared += 1
        tags = {tag["key"]: tag["value"] for tag in told["tags"]}
        given = {key: plain(value) for key, value in (live.attributes or {}).items()}
        given.pop("shop.symbol", None)  # set by the tool
        assert given.items() <= tags.items()
        assert tags.keys() - given.keys() <= BY_THE_RUN
        links = {link["spanID"] for link in told["references"] if link["refType"] != "CHILD_OF"}
        assert {f"{link.context.span_id:016x}" for link in live.links} == links
        logs = [log["fields"][0]["value"] for log in told["logs"]]
        assert [event.name for event in live.events] == logs
    assert compared == 6


def test_a_collector_gets_no_run_that_the_provider_has(
    kept: KeptSpans, collector: Any, clean_environment: pytest.MonkeyPatch
) -> None:
    clean_environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    observer = SpanObserver()
    run(advise, "IBM", observers=[observer])
    observer.close()
    assert kept.all
    assert collector.spans() == []


def test_a_failure_is_the_status_of_its_span(kept: KeptSpans) -> None:
    with pytest.raises(ToolFailed):
        run(part, -1)
    span = kept.named("execute_tool halve")
    assert span.status.status_code is StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == "ToolFailed"
    assert kept.named("invoke_workflow part").status.status_code is StatusCode.ERROR


@program
async def confirmed() -> bool:
    return await ask(bool, "Really?")


def test_questions_have_spans(kept: KeptSpans) -> None:
    seen: list[trace.Span] = []

    def answer(question: Any) -> str:
        seen.append(trace.get_current_span())
        return "yes"

    assert run(confirmed, options=RunOptions(on_ask=answer))
    span = kept.named("node ask")
    assert span.context is not None
    assert seen[0].get_span_context().span_id == span.context.span_id


@pytest.mark.parametrize("capture", ["", "SPAN_ONLY"])
def test_content_is_told_if_it_is_captured(
    kept: KeptSpans, clean_environment: pytest.MonkeyPatch, capture: str
) -> None:
    clean_environment.setenv(CAPTURE, capture)
    run(advise, "IBM")
    text = [str(dict(span.attributes or {})) for span in kept.all]
    assert any("Plan for" in one for one in text) == bool(capture)
    root = dict(kept.named("invoke_workflow advise").attributes or {})
    if capture:
        (asked,) = json.loads(str(root["gen_ai.input.messages"]))
        (answer,) = json.loads(str(root["gen_ai.output.messages"]))
        assert asked == {"role": "user", "parts": [{"type": "text", "content": "IBM"}]}
        assert answer["parts"] == [{"type": "text", "content": "half is 1.5"}]
        assert (root["input.value"], root["output.value"]) == ("IBM", "half is 1.5")
    else:
        assert not {"gen_ai.input.messages", "gen_ai.output.messages"} & root.keys()
        assert not {"input.value", "output.value"} & root.keys()


def test_content_that_is_switched_off_is_not_told(
    kept: KeptSpans, clean_environment: pytest.MonkeyPatch
) -> None:
    clean_environment.setenv(CAPTURE, "SPAN_ONLY")

    async def main() -> None:
        backend = ScriptedBackend(lambda request, prompt: "7", clock=MonotonicClock())
        async with Runtime({"default": (backend, None)}, content="off") as runtime:
            await runtime.run(advise, "IBM")

    anyio.run(main)
    assert kept.all
    assert not any("Plan for" in str(dict(span.attributes or {})) for span in kept.all)


@tool(effects="read")
async def call_shop(url: str) -> str:
    """Ask the shop, as an instrumented client does."""
    headers: dict[str, str] = {}
    inject(headers)
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(url, headers=headers)).text


@program
async def shopping(url: str) -> str:
    return await call_shop(url)


@pytest.fixture
def shop() -> Any:
    """A server that answers with the `traceparent` that it got."""

    with answering(lambda asked: (200, asked.headers.get("traceparent", "").encode())) as url:
        yield url


def test_servers_that_a_tool_asks_get_its_span(kept: KeptSpans, shop: str) -> None:
    header = run(shopping, shop)
    context = kept.named("execute_tool call_shop").context
    assert context is not None
    assert header == f"00-{context.trace_id:032x}-{context.span_id:016x}-03"


def test_without_a_provider_they_get_the_span_that_is_built_later(
    shop: str, tmp_path: Path
) -> None:
    observer = SpanObserver(folder=tmp_path, environment={})
    header = run(shopping, shop, observers=[observer])
    observer.close()
    (path,) = observer.files.values()
    (told,) = json.loads(path.read_text("utf-8"))["data"]
    (span,) = [one for one in told["spans"] if one["operationName"] == "execute_tool call_shop"]
    assert header == f"00-{told['traceID']}-{span['spanID']}-01"


def test_if_nobody_records_the_run_they_get_the_callers_span(shop: str) -> None:
    given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
    assert run(shopping, shop) == ""
    assert run(shopping, shop, options=RunOptions(traceparent=given)) == given


def test_a_run_that_the_sampler_drops_has_no_spans_and_says_so(shop: str) -> None:
    dropping = KeptSpans(sampler=ALWAYS_OFF)
    header = run(shopping, shop, provider=dropping.provider)
    assert dropping.all == ()
    assert header.endswith("-02")
