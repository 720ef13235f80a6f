"""What a remote engine learns of the trace, and where else it goes: nowhere."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentrt import chat, program
from agentrt.app import open_runtime
from agentrt.remote.http import Http
from agentrt.runtime import RunOptions
from agentrt.telemetry import SpanObserver
from tests.telemetry.provider import KeptSpans

ASK = chat(system="Be brief.")
CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@program
async def two(mark: str) -> str:
    plan = await ASK.user(f"plan {mark}").generate(max_tokens=4, name="plan")
    return plan + await ASK.user(f"report {mark}").generate(max_tokens=4, name="report")


def headers(
    portal: Any,
    url: str,
    mark: str,
    *,
    observers: Sequence[Any] = (),
    options: RunOptions | None = None,
    **settings: Any,
) -> dict[str, str | None]:
    """The `traceparent` of each request of a run that the server got, by the name of its node."""

    async def main() -> dict[str, str | None]:
        opening = open_runtime(engine=url, remote_model="tiny", observers=observers, **settings)
        async with opening as runtime:
            await runtime.with_options(options or RunOptions()).run(two, mark)
        http = Http(url)
        try:
            requests = (await http.get("/seen"))["requests"]
        finally:
            await http.aclose()
        found = {}
        for one in requests:
            text = str((one["body"].get("messages") or [{}])[-1].get("content"))
            if text.endswith(mark):
                found[text.split()[0]] = one["headers"].get("traceparent")
        return found

    told: dict[str, str | None] = portal.call(main)
    return told


def test_an_engine_gets_the_span_of_its_chat(portal: Any, server_url: str, tmp_path: Path) -> None:
    observer = SpanObserver(folder=tmp_path, environment={})
    found = headers(portal, server_url, "filed", observers=[observer])
    observer.close()
    (path,) = observer.files.values()
    (told,) = json.loads(path.read_text("utf-8"))["data"]
    spans = {span["operationName"]: span["spanID"] for span in told["spans"]}
    assert found == {
        name: f"00-{told['traceID']}-{spans[f'chat {name}']}-01" for name in ("plan", "report")
    }
    (chat_plan,) = [span for span in told["spans"] if span["operationName"] == "chat plan"]
    tags = {tag["key"]: tag["value"] for tag in chat_plan["tags"]}
    assert tags["span.kind"] == "client"
    assert tags["server.address"] in server_url
    assert tags["gen_ai.request.stream"] is True
    assert tags["gen_ai.request.model"] == "tiny"
    assert tags["gen_ai.response.id"] == "chatcmpl-1"  # as the server's own log has it
    assert tags["gen_ai.response.model"] == "tiny"


def test_an_engine_gets_the_live_span_of_its_chat(portal: Any, server_url: str) -> None:
    kept = KeptSpans()
    found = headers(portal, server_url, "live", tracer_provider=kept.provider)
    for name in ("plan", "report"):
        context = kept.named(f"chat {name}").context
        assert context is not None
        assert found[name] == f"00-{context.trace_id:032x}-{context.span_id:016x}-03"


def test_an_engine_gets_the_callers_span_if_nobody_records_the_run(
    portal: Any, server_url: str
) -> None:
    given = headers(portal, server_url, "passed", options=RunOptions(traceparent=CALLER))
    assert given == {"plan": CALLER, "report": CALLER}
    assert headers(portal, server_url, "alone") == {"plan": None, "report": None}
