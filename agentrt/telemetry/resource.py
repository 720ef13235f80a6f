"""Resources of spans: one service for the runtime and one for the engine, in different colours."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from urllib.parse import unquote

from agentrt.telemetry.names import RUNTIME_SERVICE
from agentrt.telemetry.span import Attributes, Service

Resources = dict[Service, Attributes]
"""Resource attributes of each service, `service.name` included."""


def resources_of(environment: Mapping[str, str]) -> Resources:
    """Resources by `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`."""
    given: Attributes = {}
    for pair in environment.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        key, equals, value = pair.partition("=")
        if equals and key.strip():
            given[key.strip()] = unquote(value.strip())
    name = environment.get("OTEL_SERVICE_NAME", "").strip()
    service = name or str(given.get("service.name", RUNTIME_SERVICE))
    shared = {"service.version": _version(), **given}
    return {
        "runtime": {**shared, "service.name": service},
        "engine": {**shared, "service.name": engine_service(service)},
    }


def engine_service(service: str) -> str:
    """Name of the engine's service beside that of the runtime."""
    return f"{service}-engine"


def _version() -> str:
    try:
        return version("agentrt")
    except PackageNotFoundError:
        return "0"
