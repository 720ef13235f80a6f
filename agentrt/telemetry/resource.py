"""Resources of spans: one service per lane, so that each has its own colour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import unquote

from agentrt.telemetry.names import RUNTIME_SERVICE
from agentrt.telemetry.span import Attributes, Lane


@dataclass(frozen=True, slots=True)
class Resources:
    """Resource attributes of each lane."""

    runtime: Attributes
    engine: Attributes

    def of(self, lane: Lane) -> Attributes:
        """The attributes of one lane, `service.name` among them."""
        return self.runtime if lane == "runtime" else self.engine


def resources_of(environment: Mapping[str, str]) -> Resources:
    """Resource according to `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`."""
    given: Attributes = {}
    for pair in environment.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        key, equals, value = pair.partition("=")
        if equals and key.strip():
            given[key.strip()] = unquote(value.strip())
    name = environment.get("OTEL_SERVICE_NAME", "").strip()
    service = name or str(given.get("service.name", RUNTIME_SERVICE))
    shared = {"service.version": _version(), **given}
    return Resources(
        {**shared, "service.name": service},
        {**shared, "service.name": f"{service}-engine"},
    )


def _version() -> str:
    try:
        return version("agentrt")
    except PackageNotFoundError:
        return "0"
