"""A collector that speaks OTLP/HTTP, and runs to export."""

import gzip
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agentrt.analysis import RunRecord
from tests.oracles.random_runs import play
from tests.oracles.statements import Statement, WaitStatement, Work

FINANCE: tuple[Statement, ...] = (
    Work("generate", prefill_s=0.1, decode_s=0.4, items=2),
    WaitStatement(0, 0),
    Work("tool", plan=(0, 0), decode_s=0.5),
    WaitStatement(0, 1),
    Work("tool", plan=(0, 1), decode_s=0.1),
    Work("generate", deps=(1, 2), early_s=0.05, prefill_s=0.02, decode_s=0.3),
)


class Collector:
    """What arrived at an in-process collector."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.requests: list[tuple[dict[str, str], ExportTraceServiceRequest]] = []
        collector = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                headers = {key.lower(): value for key, value in self.headers.items()}
                headers["path"] = self.path
                message = ExportTraceServiceRequest.FromString(body)
                collector.requests.append((headers, message))
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()

    def spans(self) -> list[tuple[str, Any]]:
        """Service name and span, of everything that arrived."""
        found = []
        for _, message in self.requests:
            for part in message.resource_spans:
                resource = {pair.key: pair.value.string_value for pair in part.resource.attributes}
                for scope in part.scope_spans:
                    found += [(resource["service.name"], span) for span in scope.spans]
        return found

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No `OTEL_*` variable of whoever runs the tests."""
    import os

    for name in list(os.environ):
        if name.startswith("OTEL_") or name == "AGENTRT_TRACE_STEPS":
            monkeypatch.delenv(name)
    return monkeypatch


@pytest.fixture
def finance() -> list[Any]:
    """The events of a run of the finance kind."""
    return play(FINANCE)


@pytest.fixture
def recorded() -> Callable[..., RunRecord]:
    def make(body: tuple[Statement, ...], **how: Any) -> RunRecord:
        record = RunRecord()
        record.on_events(play(body, **how))
        return record

    return make
