"""The server as a process: an engine, a socket, and an orderly end."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import uvicorn
from starlette.applications import Starlette

from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig
from agentrt.base.errors import UsageError
from agentrt.engine.process.backend import EmbeddedBackend, Placement
from agentrt.prompt import Codec
from agentrt.serve.application import application
from agentrt.serve.dispatch import DEFAULT_MOST_REQUESTS, Service

Hurry = Callable[[], Coroutine[Any, Any, None]]
_BACKLOG = 1024
_KEEP_ALIVE_S = 75
_PARTING_S = 5
"""For a client to take that its answer ends; who reads nothing is cut off then."""


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """How a server is set up.

    Attributes:
        engine: What serves the model.
        model: What it is called; "" calls it as its directory.
        host: Address to listen at.
        port: 0 takes a free one.
        key: That requests have to bring; "" asks for none.
        most_requests: Under way at once; more are told to come back.
        grace_s: At the end: how long answers under way may still take.
    """

    engine: EngineConfig
    model: str = ""
    host: str = "127.0.0.1"
    port: int = 8000
    key: str = ""
    most_requests: int = DEFAULT_MOST_REQUESTS
    grace_s: float = 10.0

    def __post_init__(self) -> None:
        if not self.key and not _is_loopback(self.host):
            raise UsageError(
                f"--host {self.host} lets others in, and there is no key",
                hint="Give --api-key env:NAME too, or listen at 127.0.0.1",
            )

    @property
    def name(self) -> str:
        """What the model is called."""
        return self.model or Path(self.engine.model_path).resolve().name


async def serve(config: ServeConfig, *, tell: Callable[[str], None]) -> None:
    """Serve until the process is asked to end; answers under way may then still end.

    Asked again, it ends them.

    Args:
        config: How.
        tell: Called with the address, once it is served.

    Raises:
        AgentrtError: The address is taken, or the engine does not start.
    """
    async with serving(config, hurry=_asked_to_end) as url:
        tell(url)
        await _asked_to_end()


async def _asked_to_end() -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            return


@asynccontextmanager
async def serving(
    config: ServeConfig, *, place: Placement = "process", hurry: Hurry | None = None
) -> AsyncIterator[str]:
    """A server, as long as the block lasts; gives its address.

    Args:
        config: How.
        place: Where the engine runs; in a thread of this process for tests.
        hurry: Called behind the block; when it returns, answers under way are waited for no more.

    Raises:
        AgentrtError: The address is taken, or the engine does not start.
    """
    with _listening(config) as listener:
        clock = MonotonicClock()
        backend = EmbeddedBackend(config.engine, clock, place=place)
        backend.launch()  # its process imports torch while we load the codec
        try:
            codec = await anyio.to_thread.run_sync(Codec.load, config.engine.model_path)
        except BaseException:
            backend.abandon()
            raise
        service = Service(
            backend, codec, clock, model=config.name, most_requests=config.most_requests
        )
        try:
            await service.start()
            server = _Server(_uvicorn(config, application(service, codec.call_frame, config.key)))
            answering = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                yield _url(listener)
            finally:
                server.should_exit = True
                with anyio.CancelScope(shield=True):
                    await _ended(answering, service, config.grace_s, hurry)
        finally:
            await service.aclose()


async def _ended(
    answering: asyncio.Task[None], service: Service, grace_s: float, hurry: Hurry | None
) -> None:
    """Waits for answers under way; those that the grace does not suffice for are told so."""
    ends = {answering} | ({asyncio.create_task(hurry())} if hurry is not None else set())
    try:
        await asyncio.wait(ends, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        service.give_up()
        await answering
    finally:
        for end in ends:
            end.cancel()


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn would raise them anew before the engine has ended."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _uvicorn(config: ServeConfig, app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=math.ceil(config.grace_s) + _PARTING_S,
    )


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"


def _listening(config: ServeConfig) -> socket.socket:
    """Bound before the engine loads: an address that is taken is told at once.

    Accepted connections inherit TCP_NODELAY. asyncio leaves it unset on sockets without the
    protocol's number, which are all that `create_server` makes, and the body of a response, written
    after its head, would then wait 40 ms for the client's delayed acknowledgement.
    """
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        listener = socket.create_server(
            (config.host, config.port), family=family, backlog=_BACKLOG, reuse_port=False
        )
    except OSError as error:
        raise UsageError(
            f"nothing can listen at {config.host}:{config.port} ({error.strerror or error})",
            hint="Give another --port, or 0 for a free one",
        ) from None
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
