"""The server as a process: a runtime, a socket, and an orderly end."""

from __future__ import annotations

import asyncio
import errno
import math
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import uvicorn

from agentrt.base.errors import UsageError
from agentrt.base.loopback import is_loopback
from agentrt.runtime import Runtime
from agentrt.serve.api_keys import ApiKey
from agentrt.serve.application import Application
from agentrt.serve.connection import (
    ACCEPTED_AT_ONCE,
    Connection,
    ConnectionLimits,
    most_connections,
)
from agentrt.serve.host_check import HostCheck, is_host_name
from agentrt.serve.request_spans import RequestSpans
from agentrt.serve.served_model import DEFAULT_MOST_REQUESTS, ServedModel

Opening = AbstractAsyncContextManager[Runtime]
"""A runtime that is opened with the server and closed behind it."""
Hurry = Callable[[], Coroutine[Any, Any, None]]
_BACKLOG = 1024
_OF_PORT = (errno.EADDRINUSE, errno.EACCES)
"""Faults that another port mends; the others are those of the address."""
_KEEP_ALIVE_S = 75
_PARTING_S = 5
"""For clients to read the end of their answers; then their connections are cut."""


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """Settings of a server.

    Attributes:
        model: Name that clients call the model by.
        host: Address to listen at.
        port: 0 takes a free one.
        keys: Keys of which requests have to bring one; () requires none.
        most_requests: Requests under way at once; further ones are refused for the moment.
        grace_s: Time that answers under way may still take at the end.
        hosts: Names beside those of the loopback under which clients may call a server. One that
            listens elsewhere takes every name if none are given: its keys keep others out.
        head_timeout_s: Time for the head of a request.
        body_timeout_s: Time for the body of a request.
        max_connections: Connections at once; fewer if the process may not open as many files.
    """

    model: str
    host: str = "127.0.0.1"
    port: int = 8000
    keys: tuple[ApiKey, ...] = ()
    most_requests: int = DEFAULT_MOST_REQUESTS
    grace_s: float = 10.0
    hosts: tuple[str, ...] = ()
    head_timeout_s: float = 20.0
    body_timeout_s: float = 120.0
    max_connections: int = 1024

    def __post_init__(self) -> None:
        if not self.keys and not is_loopback(self.host):
            raise UsageError(
                f"--host {self.host} lets others in, and there is no key",
                hint="Give --api-key env:NAME too, or listen at 127.0.0.1",
            )
        for name in self.hosts:
            if not is_host_name(name):
                raise UsageError(
                    f"--allow-host {name!r} is no name of a host",
                    hint="Give it without scheme, port and path: --allow-host gpu.example",
                )

    @property
    def host_check(self) -> HostCheck | None:
        """The names of the server; None takes every name."""
        if not self.hosts and not is_loopback(self.host):
            return None
        return HostCheck(frozenset(map(str.lower, self.hosts)))


async def serve(
    config: ServeConfig,
    opening: Opening,
    *,
    tell: Callable[[str], None],
    spans: RequestSpans | None = None,
) -> None:
    """Serve until a signal ends the process; answers under way may then still end.

    A second signal ends them.

    Args:
        config: Settings of the server.
        opening: Runtime with the engine of the model.
        tell: Called with the address, once it is served.
        spans: Makes the spans of requests; None makes those that a tracer provider takes.

    Raises:
        AgentrtError: The address is taken, or the engine does not start.
    """
    async with serving(config, opening, hurry=_asked_to_end, prewarm=True, spans=spans) as url:
        tell(url)
        await _asked_to_end()


async def _asked_to_end() -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            return


@asynccontextmanager
async def serving(
    config: ServeConfig,
    opening: Opening,
    *,
    hurry: Hurry | None = None,
    prewarm: bool = False,
    spans: RequestSpans | None = None,
) -> AsyncIterator[str]:
    """A server, as long as the block lasts; gives its address.

    Example:
        ```python
        config = ServeConfig("embedded", port=0)
        async with serving(config, open_runtime()) as url:
            print(url)
        ```

    Args:
        config: Settings of the server.
        opening: Runtime with the engine of the model.
        hurry: Called behind the block; answers under way are waited for until it returns.
        prewarm: Whether to start the processes of constrained requests beside the server.
        spans: Makes the spans of requests; None makes those that a tracer provider takes.

    Raises:
        AgentrtError: The address is taken, or the engine does not start.
    """
    with _listening(config) as listener:
        async with opening as runtime:
            model = ServedModel(runtime, name=config.model, most_requests=config.most_requests)
            app = Application(model, config.keys, config.host_check, spans)
            server = _Server(_uvicorn(config, app))
            warming = asyncio.create_task(model.prewarm()) if prewarm else None
            answering = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                yield _url(listener)
            finally:
                server.should_exit = True
                if warming is not None:
                    warming.cancel()
                with anyio.CancelScope(shield=True):
                    await _ended(answering, model, config.grace_s, hurry)
                model.close()


async def _ended(
    answering: asyncio.Task[None], model: ServedModel, grace_s: float, hurry: Hurry | None
) -> None:
    """Wait for answers under way; those that take longer than the grace fail."""
    ends = {answering} | ({asyncio.create_task(hurry())} if hurry is not None else set())
    try:
        await asyncio.wait(ends, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
        model.give_up()
        await answering
    finally:
        for end in ends:
            end.cancel()


class _Server(uvicorn.Server):
    """A server without signal handlers: uvicorn's raise a signal before the engine has ended."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start; connections beyond those that are accepted at once wait in the kernel."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(_BACKLOG)


def _uvicorn(config: ServeConfig, app: Application) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # any client of this machine could take another address by them
        http=partial(Connection, _limits(config)),  # type: ignore[arg-type]
        ws="none",
        backlog=ACCEPTED_AT_ONCE,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=math.ceil(config.grace_s) + _PARTING_S,
    )


def _limits(config: ServeConfig) -> ConnectionLimits:
    most = most_connections(config.max_connections)
    return ConnectionLimits(config.head_timeout_s, config.body_timeout_s, most)


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"


def _listening(config: ServeConfig) -> socket.socket:
    """The socket, bound before the engine loads: an address that is taken fails at once.

    Accepted connections inherit TCP_NODELAY. asyncio leaves it unset on sockets without the
    protocol's number, which are all that `create_server` makes, and the body of a response, written
    after its head, would then wait 40 ms for the client's delayed acknowledgement.
    """
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        listener = socket.create_server(
            (config.host, config.port), family=family, backlog=_BACKLOG, reuse_port=False
        )
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        is_of_port = getattr(error, "errno", None) in _OF_PORT
        raise UsageError(
            f"nothing can listen at {config.host}:{config.port} ({why})",
            hint="Give another --port, or 0 for a free one"
            if is_of_port
            else "Give --host an address of this machine, such as 127.0.0.1",
        ) from None
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
