"""The address of a server as attributes of spans."""

from __future__ import annotations

from urllib.parse import urlsplit


def server_attributes(address: str) -> dict[str, str | int]:
    """A server in the words of OpenTelemetry's conventions.

    Args:
        address: URL of the server.
    """
    parts = urlsplit(address)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return {"server.address": parts.hostname or address, "server.port": port}
