"""`agentrt doctor --engine --probe`: what a server enforces, and what is only checked."""

from __future__ import annotations

from agentrt.base.clock import MonotonicClock
from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.base.errors import AgentrtError


async def examine_server(engine: RemoteEngineConfig) -> tuple[dict[str, str], int]:
    """The report by name, and the exit code."""
    from agentrt.remote import RemoteBackend
    from agentrt.remote.remote_engines import codec_at
    from agentrt.remote.report import report_of

    backend: RemoteBackend | None = None
    try:
        codec = codec_at(engine.tokenizer) if engine.tokenizer else None
        backend = RemoteBackend(engine, clock=MonotonicClock(), codec=codec)
        await backend.start()
        await backend.read_window()
        return {"engine": engine.url} | report_of(backend.server), 0
    except AgentrtError as error:
        lack = {"engine": f"{engine.url} does not open: {error.message}", "fix": error.hint}
        return lack, error.exit_code
    finally:
        if backend is not None:
            await backend.aclose()
