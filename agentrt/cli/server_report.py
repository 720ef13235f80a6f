"""`agentrt doctor --engine`: what a server enforces, and what is only checked."""

from __future__ import annotations

import json
import sys

import anyio

from agentrt.base.clock import MonotonicClock
from agentrt.base.errors import AgentrtError


def print_server_report(url: str, model: str, api_key: str | None, *, as_json: bool) -> int:
    """Print the report; the exit code is that of the error at the opening."""
    found, code = anyio.run(examine_server, url, model or None, api_key)
    if as_json:
        text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    else:
        text = "\n".join(f"{name:<14} {value}" for name, value in found.items())
    sys.stdout.write(text + "\n")
    return code


async def examine_server(
    url: str, model: str | None, api_key: str | None
) -> tuple[dict[str, str], int]:
    """The report by name, and the exit code."""
    from agentrt.remote import RemoteBackend
    from agentrt.remote.report import report_of

    backend = RemoteBackend(url, model=model, api_key=api_key, clock=MonotonicClock())
    try:
        await backend.start()
        return {"engine": url} | report_of(backend.server), 0
    except AgentrtError as error:
        lack = {"engine": f"{url} does not open: {error.message}", "fix": error.hint}
        return lack, error.exit_code
    finally:
        await backend.aclose()
