"""Telemetry settings from the environment: the standard `OTEL_*` variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from agentrt.base.content_config import ContentChoice
from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.base.user_folders import state_folder
from agentrt.telemetry.content import Capture, capture_by, capture_of

RUNS_FOLDER = Path("traces") / "runs"
STEPS_VARIABLE = "AGENTRT_TRACE_STEPS"
VIEWER_VARIABLE = "AGENTRT_TRACE_URL"
_OTLP_PORT = 4318


@record
class Settings:
    """Settings of the making and the destination of traces.

    Attributes:
        enabled: False with `OTEL_SDK_DISABLED=true` or `OTEL_TRACES_EXPORTER=none`.
        endpoint: Address of a collector over OTLP/HTTP; "" writes files.
        capture: Destination of message content.
        steps_every: Trace one engine step in so many; 0 none.
        folder: Folder of the files.
        batch_id: Id of the batch that the runs belong to, in the names of files; "" outside one.
        viewer: Address of a page that shows a trace, with `{trace_id}` in it; "" if unknown.
    """

    enabled: bool = True
    endpoint: str = ""
    capture: Capture = "NO_CONTENT"
    steps_every: int = 0
    folder: Path = RUNS_FOLDER
    viewer: str = ""
    batch_id: str = ""

    def url_of(self, trace_id: str) -> str | None:
        """Address of a page with a trace; None if it is in a file, or unknown."""
        viewer = self.viewer or _jaeger_beside(self.endpoint)
        if not self.enabled or not self.endpoint or not viewer:
            return None
        return viewer.replace("{trace_id}", trace_id)


def with_content(settings: Settings, keep: ContentChoice | None) -> Settings:
    """The settings under a choice of what is kept of prompts and answers; None changes nothing."""
    return replace(settings, capture=capture_by(settings.capture, keep))


def runs_folder(environment: Mapping[str, str]) -> Path:
    """The folder of trace files: `traces/runs` where a `traces` folder stands, else the user's."""
    return RUNS_FOLDER if RUNS_FOLDER.parent.is_dir() else state_folder(environment) / RUNS_FOLDER


def settings_of(environment: Mapping[str, str], folder: Path = RUNS_FOLDER) -> Settings:
    """Read the environment.

    Raises:
        UsageError: A value is malformed or unsupported.
    """
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return Settings(
        enabled=not disabled and exporter != "none",
        endpoint=_endpoint(environment),
        capture=capture_of(environment),
        steps_every=steps_every_of(environment),
        folder=folder,
        viewer=environment.get(VIEWER_VARIABLE, "").strip(),
    )


def steps_every_of(environment: Mapping[str, str]) -> int:
    """Sampling interval of engine steps; 0 traces none.

    Raises:
        UsageError: The variable is no whole number.
    """
    steps = environment.get(STEPS_VARIABLE, "").strip() or "0"
    if not steps.isdecimal():
        raise UsageError(
            f"{STEPS_VARIABLE}={steps!r} is not a whole number",
            hint=f"Set {STEPS_VARIABLE}=10 to trace one engine step in ten, or unset it",
        )
    return int(steps)


def _endpoint(environment: Mapping[str, str]) -> str:
    """Endpoint of OTLP/HTTP: the variable for traces as it is, the general one as a base."""
    own = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    base = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    if not own and not base:
        return ""
    for name in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = environment.get(name, "").strip()
        if protocol and protocol != "http/protobuf":
            raise UsageError(
                f"{name}={protocol} is not spoken here",
                hint=f"Set {name}=http/protobuf and point the endpoint at port 4318",
            )
        if protocol:
            break
    endpoint = own or f"{base.rstrip('/')}/v1/traces"
    if not endpoint.startswith(("http://", "https://")):
        raise UsageError(
            f"the OTLP endpoint {endpoint!r} is not an http address",
            hint="Set OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318",
        )
    return endpoint


def _jaeger_beside(endpoint: str) -> str:
    """Viewer of a trace in a Jaeger at this endpoint."""
    jaeger = jaeger_of(endpoint)
    return f"{jaeger}/trace/{{trace_id}}" if jaeger else ""


def jaeger_of(endpoint: str) -> str:
    """Address of Jaeger's UI at this endpoint: it takes OTLP at port 4318, its UI is at 16686."""
    try:
        address = urlsplit(endpoint)
        port = address.port
    except ValueError:
        return ""
    if port != _OTLP_PORT or not address.hostname:
        return ""
    return f"http://{address.hostname}:16686"
