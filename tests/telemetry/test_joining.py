"""Runs join the trace of their caller: from Python, over HTTP, and from the command line."""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from agentrt import RunConfig, UsageError, chat, gather, program, tool
from agentrt.analysis import RunRecord, summary
from agentrt.base.clock import MonotonicClock
from agentrt.base.trace_context import trace_context_of
from agentrt.runtime import RunOptions, Runtime
from agentrt.serve import Application, RequestSpans, ServedModel
from agentrt.telemetry import SpanObserver, build
from agentrt.telemetry.log_filter import FORMAT, TraceLogFilter
from agentrt.testing import ScriptedBackend
from tests.oracles import otlp_walk
from tests.telemetry.provider import KeptSpans, is_child, orphans

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALLER = f"00-{TRACE}-{SPAN}-01"
SYSTEM = chat(system="Be brief.")


@tool(effects="pure")
def halve(number: int) -> float:
    """Half of it."""
    return number / 2


@program
async def advise(question: str) -> float:
    plan = SYSTEM.user(question).generate(int, name="plan")
    halves = await gather(halve(3), halve(await plan))
    await SYSTEM.user("Report ", str(halves)).generate(int, name="report")
    return sum(halves)


@pytest.fixture
def exported(clean_environment: pytest.MonkeyPatch, collector: Any) -> Iterator[SpanObserver]:
    """An observer that sends to a collector in this process."""
    clean_environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    observer = SpanObserver()
    yield observer
    observer.close()


async def opened(observers: Any, body: Callable[[Runtime], Any], **settings: Any) -> Any:
    backend = ScriptedBackend(
        lambda request, prompt: "7", clock=MonotonicClock(), prefill_tokens_per_s=10_000.0
    )
    config = RunConfig(blocking_call_s=0)
    async with Runtime(
        {"default": (backend, None)}, observers=observers, config=config, **settings
    ) as runtime:
        return await body(runtime)


def run(observer: Any, options: RunOptions, shape: Any = advise, *arguments: Any) -> Any:
    async def body(runtime: Runtime) -> Any:
        return await runtime.with_options(options).run(shape, *(arguments or ("How many?",)))

    return anyio.run(opened, [observer], body)


def test_a_collector_gets_whole_traces_below_the_caller(
    exported: SpanObserver, collector: Any
) -> None:
    for _ in range(2):  # runs of one caller stand in one trace
        run(exported, RunOptions(traceparent=CALLER))
    exported.close()
    spans = [span for _, span in collector.spans()]
    assert {span.trace_id.hex() for span in spans} == {TRACE}
    roots = [span for span in spans if span.parent_span_id.hex() == SPAN]
    assert [span.name for span in roots] == ["invoke_workflow advise"] * 2
    assert otlp_walk.faults(spans, frozenset({SPAN})) == []
    below = {span.name for span in spans}
    assert {"chat plan", "chat report", "execute_tool halve"} <= below
    assert any(name.startswith("engine.") for name in below)


def test_a_run_without_a_caller_is_a_whole_trace(exported: SpanObserver, collector: Any) -> None:
    run(exported, RunOptions())
    exported.close()
    spans = [span for _, span in collector.spans()]
    assert [span.name for span in spans if not span.parent_span_id] == ["invoke_workflow advise"]
    assert otlp_walk.faults(spans) == []


def test_a_caller_that_is_not_recorded_has_no_recorded_runs(
    exported: SpanObserver, collector: Any
) -> None:
    run(exported, RunOptions(traceparent=CALLER[:-1] + "0"))
    exported.close()
    assert collector.spans() == []


def test_a_malformed_caller_is_one_clear_error() -> None:
    with pytest.raises(UsageError, match="'nonsense' is malformed") as raised:
        run(RunRecord(), RunOptions(traceparent="nonsense"))
    assert "00-<32 hex digits>" in raised.value.hint


def test_files_and_summaries_name_the_trace_of_the_caller(tmp_path: Path) -> None:
    observer, record = SpanObserver(folder=tmp_path, environment={}), RunRecord()

    async def body(runtime: Runtime) -> None:
        await runtime.with_options(RunOptions(traceparent=CALLER)).run(advise, "How many?")

    anyio.run(opened, [observer, record], body)
    observer.close()
    (path,) = observer.files.values()
    assert TRACE in path.name
    (told,) = json.loads(path.read_text("utf-8"))["data"]
    assert told["traceID"] == summary(record)["trace_id"] == TRACE
    assert told["spans"][0]["references"] == []  # the caller's span is not in the file
    assert build(record).spans[0].parent_id == SPAN


@tool(effects="read")
async def delegate(question: str) -> float:
    """Run a program of its own."""

    async def body(runtime: Runtime) -> float:
        return await runtime.run(advise, question)

    result: float = await opened(OBSERVERS, body)
    return result


OBSERVERS: list[Any] = []


@program
async def boss(question: str) -> float:
    return await delegate(question)


def test_a_run_inside_of_a_tool_hangs_below_it(
    exported: SpanObserver, collector: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "OBSERVERS", [exported])
    run(exported, RunOptions(), boss)
    exported.close()
    spans = {span.name: span for _, span in collector.spans()}
    inner = spans["invoke_workflow advise"]
    assert inner.parent_span_id == spans["execute_tool delegate"].span_id
    assert otlp_walk.faults([span for _, span in collector.spans()]) == []


def ask(
    application: Callable[[Runtime], Application], headers: dict[str, str], path: str
) -> Callable[[Runtime], Any]:
    """A request to a server over the scripted engine."""

    async def body(runtime: Runtime) -> httpx.Response:
        transport = httpx.ASGITransport(application(runtime))
        question = {"model": "tiny", "messages": [{"role": "user", "content": "Why?"}]}
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.post(path, json=question, headers=headers)

    return body


def served(runtime: Runtime, spans: RequestSpans) -> Application:
    return Application(ServedModel(runtime, name="tiny"), spans=spans)


def test_a_request_has_a_span_between_its_client_and_its_run(
    exported: SpanObserver, collector: Any
) -> None:
    body = ask(
        lambda runtime: served(runtime, RequestSpans(exported)),
        {"traceparent": CALLER, "tracestate": "shop=1", "user-agent": "till"},
        "/v1/chat/completions",
    )
    assert anyio.run(opened, [exported], body).status_code == 200
    exported.close()
    spans = {span.name: span for _, span in collector.spans()}
    request, root = spans["POST /v1/chat/completions"], spans["invoke_workflow chat_completion"]
    assert request.kind == 2
    assert request.parent_span_id.hex() == SPAN
    assert root.parent_span_id == request.span_id
    assert any(name.startswith("chat ") for name in spans)
    assert otlp_walk.faults([span for _, span in collector.spans()], frozenset({SPAN})) == []
    found = {pair.key: pair.value for pair in request.attributes}
    assert found["http.request.method"].string_value == "POST"
    assert found["http.route"].string_value == "/v1/chat/completions"
    assert found["http.response.status_code"].int_value == 200
    assert found["url.scheme"].string_value == "http"
    assert found["user_agent.original"].string_value == "till"
    assert request.trace_state == root.trace_state == ""  # of our own spans
    assert "error.type" not in found


@pytest.mark.parametrize(
    ("path", "name", "status"),
    [("/v1/nothing", "POST", 404), ("/v1/models", "POST /v1/models", 405)],
)
def test_a_refused_request_has_a_span_too(
    exported: SpanObserver, collector: Any, path: str, name: str, status: int
) -> None:
    body = ask(lambda runtime: served(runtime, RequestSpans(exported)), {}, path)
    assert anyio.run(opened, [exported], body).status_code == status
    exported.close()
    ((_, span),) = collector.spans()
    found = {pair.key: pair.value for pair in span.attributes}
    assert span.name == name
    assert found["http.response.status_code"].int_value == status


def test_health_checks_have_none(exported: SpanObserver, collector: Any) -> None:
    body = ask(lambda runtime: served(runtime, RequestSpans(exported)), {}, "/health")
    assert anyio.run(opened, [exported], body).status_code == 405
    exported.close()
    assert collector.spans() == []


def test_a_tracer_provider_has_the_spans_of_a_server(clean_environment: Any) -> None:
    kept = KeptSpans()
    body = ask(
        lambda runtime: served(runtime, RequestSpans(provider=kept.provider)),
        {"traceparent": CALLER},
        "/v1/chat/completions",
    )

    async def main() -> Any:
        return await opened([], body, tracer_provider=kept.provider)

    assert anyio.run(main).status_code == 200
    request = kept.named("POST /v1/chat/completions")
    assert request.parent is not None
    assert f"{request.parent.span_id:016x}" == SPAN
    assert is_child(kept.named("invoke_workflow chat_completion"), request)
    faults = orphans(kept.all)
    assert faults == ["POST /v1/chat/completions: its parent is not there"]


@tool(effects="read")
def complain() -> str:
    """Write to the log."""
    logging.getLogger("shop").warning("sold out")
    return "done"


@program
async def complaining() -> str:
    return await complain()


def test_logs_carry_the_span_of_the_tool_that_writes_them(tmp_path: Path) -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[assignment]
    handler.addFilter(TraceLogFilter())
    logger = logging.getLogger("shop")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        logger.warning("closed")
        record = RunRecord()

        async def body(runtime: Runtime) -> None:
            await runtime.with_options(RunOptions(traceparent=CALLER)).run(complaining)

        spans = SpanObserver(folder=tmp_path, environment={})
        anyio.run(opened, [record, spans], body)
        spans.close()
    finally:
        logger.removeHandler(handler)
    before, inside = records
    (span,) = [one for one in build(record).spans if one.name == "execute_tool complain"]
    assert (before.trace_id, before.span_id, before.run_id) == ("", "", "")  # type: ignore[attr-defined]
    found = (inside.trace_id, inside.span_id, inside.trace_flags)  # type: ignore[attr-defined]
    assert found == (TRACE, span.span_id, "01")
    text = logging.Formatter(FORMAT).format(inside)
    assert text.startswith("WARNING shop: sold out [run=")
    assert text.endswith(f" trace={TRACE} span={span.span_id}]")


@tool(effects="pure", process=True)
def environment() -> str:
    """The caller that a process is told."""
    return os.environ.get("TRACEPARENT", "")


@program
async def isolated() -> str:
    return await environment()


def test_a_tool_in_a_process_of_its_own_is_told_its_span(tmp_path: Path) -> None:
    record, spans = RunRecord(), SpanObserver(folder=tmp_path, environment={})

    async def body(runtime: Runtime) -> Any:
        return await runtime.run(isolated)

    header = anyio.run(opened, [record, spans], body)
    spans.close()
    found = trace_context_of(header)
    (span,) = [one for one in build(record).spans if one.name == "execute_tool environment"]
    assert found is not None
    assert (found.trace_id, found.span_id) == (record.trace_id, span.span_id)
