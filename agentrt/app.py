"""Where engines, runtime and observers meet: builds what a run needs from a few settings."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio
from anyio import to_thread

from agentrt import embedded
from agentrt.base.clock import Clock, MonotonicClock
from agentrt.base.config import EngineConfig, RunConfig, SchedulerConfig
from agentrt.base.engine_extra import require_packages
from agentrt.base.engine_identity import engine_identity
from agentrt.base.engine_roles import EngineChoice, engines_of_roles, prices_of
from agentrt.base.engine_selection import EngineSelection, EngineSettings
from agentrt.base.engines.engine_file import engine_file
from agentrt.base.engines.kept_content import content_config
from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.base.errors import UsageError
from agentrt.base.prices import check_currencies
from agentrt.program import Program
from agentrt.protocol.backend import Backend
from agentrt.protocol.events import Observer
from agentrt.protocol.priced_backend import PricedBackend
from agentrt.runtime import Runtime, leave_threads
from agentrt.runtime.estimate_store import estimates_path
from agentrt.runtime.estimate_store.writer import EstimateWriter
from agentrt.runtime.opening import RuntimeOpening
from agentrt.runtime.response_cache.cache import ResponseCache
from agentrt.runtime.response_cache.location import response_store
from agentrt.runtime.response_cache.store import ResponseStore
from agentrt.runtime.warmup import start_warmup
from agentrt.scheduler import Estimates
from agentrt.telemetry import collector_of, transcripts_of

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from agentrt.base.content_config import ContentChoice
    from agentrt.prompt import Codec
    from agentrt.recording import RunRecording
    from agentrt.remote import RemoteEngines

_log = logging.getLogger("agentrt")

MIN_OPENING_S = 1.0
"""Time for opening a remote engine, however short the deadline: its probes take a part of it."""


def open_runtime(
    *,
    engine: EngineChoice = None,
    models: Mapping[str, EngineChoice] | None = None,
    observers: Sequence[Observer] = (),
    config: RunConfig | None = None,
    clock: Clock | None = None,
    place: Literal["process", "thread"] = "process",
    remote_model: str | None = None,
    api_key: str | None = None,
    scheduler: SchedulerConfig | None = None,
    estimates: Estimates | None = None,
    programs: Sequence[Program[..., Any]] = (),
    remote_limits: Mapping[str, Any] | None = None,
    response_cache: str | None = None,
    record: Path | str | None = None,
    tracer_provider: TracerProvider | None = None,
    content: ContentChoice | None = None,
) -> RuntimeOpening:
    """A runtime with its engines; `async with` opens it for a block, `await` until `aclose()`.

    Example:
        ```python
        async with open_runtime() as runtime:
            print(await runtime.run(finance, "Which returned more, AAPL or IBM?"))
        ```

        Over the cells of a notebook:

        ```python
        runtime = await open_runtime()
        print(await runtime.run(finance, "Which returned more, AAPL or IBM?"))
        await runtime.aclose()
        ```

    Args:
        engine: Engine of generations that name no model: settings, the URL of a server, or a name
            of `agentrt.toml`. None takes the `default` role of that file, or else the embedded
            engine.
        models: More engines, by the role that `model=` names; None takes the roles of that file.
        observers: See every event.
        config: For runs that do not say otherwise. Its deadline is that of the opening of a
            remote engine too.
        clock: The one clock of runtime, engine and observers.
        place: Where an embedded engine runs: in its own process, or in a thread of this one.
        remote_model: Name of the model at `engine`, a remote one; None takes the only one.
        api_key: `env:NAME`, the variable that holds the key of `engine`. Engines of other roles
            have keys of their own (`RemoteEngineConfig`).
        scheduler: How runs share the engines; its policy also orders what waits in or before one.
        estimates: Estimates of past runs. None takes those kept on this machine of runs on the
            same engines, and keeps what these runs add soon after each (see
            `agentrt.runtime.estimate_store`).
        programs: Programs about to run; their types, tools and chats are prepared meanwhile.
        remote_limits: Fields of `agentrt.remote.RemoteLimits` that differ from the defaults.
        response_cache: Place of the answers of `generate(cache=True)`: a file, `redis://HOST:PORT`,
            or "off". None takes that of `AGENTRT_RESPONSE_CACHE`, or else a file of the user.
        record: File for a recording of all runs, which tests can replay (docs/testing.md); a
            recording that is there is replaced.
        tracer_provider: OpenTelemetry provider that makes the spans of nodes while they run; None
            takes the one of the process, if there is one.
        content: Choice of what these spans have of prompts and answers; None takes that of
            `AGENTRT_CONTENT` or `agentrt.toml`.

    Raises:
        UsageError: The event loop is not one of asyncio, an engine is unknown, `agentrt.toml` is
            malformed, or `record` is a file that is no recording.
        EngineUnavailable: An engine does not answer or cannot start.
        NotInstalled: The packages of an embedded engine, or those for Redis, are not installed.
        ModelInvalid: A model directory cannot be loaded.
    """
    opened = partial(
        _opened,
        engine=engine,
        models=models,
        observers=observers,
        config=config,
        clock=clock or MonotonicClock(),
        place=place,
        remote_model=remote_model,
        api_key=api_key,
        scheduler=scheduler,
        estimates=estimates,
        programs=programs,
        remote_limits=remote_limits or {},
        response_cache=response_cache,
        record=record,
        tracer_provider=tracer_provider,
        content=content,
    )
    return RuntimeOpening(opened)


@asynccontextmanager
async def _opened(
    *,
    engine: EngineChoice,
    models: Mapping[str, EngineChoice] | None,
    observers: Sequence[Observer],
    config: RunConfig | None,
    clock: Clock,
    place: Literal["process", "thread"],
    remote_model: str | None,
    api_key: str | None,
    scheduler: SchedulerConfig | None,
    estimates: Estimates | None,
    programs: Sequence[Program[..., Any]],
    remote_limits: Mapping[str, Any],
    response_cache: str | None,
    record: Path | str | None,
    tracer_provider: TracerProvider | None,
    content: ContentChoice | None,
) -> AsyncIterator[Runtime]:
    """The block in which a runtime is open."""
    recording = None if record is None else _recording(Path(record), clock)
    choices = engines_of_roles(
        engine,
        models,
        engine_file(os.environ),
        embedded.path(),
        remote_model=remote_model,
        api_key=api_key,
    )
    waits = any(isinstance(choice, EngineConfig) for choice in choices.values())
    imported = threading.Event()
    warm = partial(_warm, imported, waits=waits)
    threading.Thread(target=warm, name="agentrt warm-up", daemon=True).start()
    check_currencies({one.currency for choice in choices.values() for one in prices_of(choice)})
    store = response_store(response_cache, os.environ)
    responses = None if store is None else _responses(choices, store)
    remotes = _remotes(choices, clock, config, remote_limits, scheduler or SchedulerConfig())
    backends: dict[str, tuple[Backend, Codec | None]] = {}
    try:
        for role, choice in choices.items():
            backends[role] = _backend(
                _ordered(choice, scheduler),
                clock,
                place,
                remotes,
            )
        ready = start_warmup(programs, backends.values())
        memory = (
            EstimateWriter(estimates_path(os.environ), _engines(choices))
            if estimates is None
            else EstimateWriter(None, "", estimates)
        )
        await to_thread.run_sync(memory.load)  # while the engines start
        runtime = Runtime(
            backends,
            clock=clock,
            observers=observers if recording is None else [*observers, recording],
            config=config,
            scheduler=scheduler,
            estimates=memory.estimates,
            patterns=memory.patterns,
            on_run_ended=memory.schedule_save,
            responses=responses,
            tracer_provider=tracer_provider,
            content=content or content_config(os.environ).keep,
        )
    except BaseException:
        for backend, _ in backends.values():
            await backend.aclose()
        raise
    try:
        async with runtime:
            if recording is not None:
                recording.note_engines(
                    {role: one.capabilities for role, one in runtime.engines.items()}
                )
            if ready is not None:
                await to_thread.run_sync(ready.join)  # long done, unless engines start at once
            if not imported.is_set():
                await to_thread.run_sync(imported.wait)
            yield runtime
    finally:
        with anyio.CancelScope(shield=True):
            await memory.aclose()
            if responses is not None:
                await responses.aclose()


def run_here(
    program: Program[Any, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    selection: EngineSelection | None,
) -> Any:
    """Default of `Program.run`: a runtime of its own around one run.

    The engine is that of `selection`; if there is none, the environment names it.

    Traces go to a collector where `OTEL_EXPORTER_OTLP_ENDPOINT` names one, and transcripts to files
    where `AGENTRT_CONTENT` or `agentrt.toml` asks for them; the command line alone writes more.

    Raises:
        UsageError: An event loop is running already.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise UsageError(
            f"{program.name}.run() was called inside a running event loop",
            hint=f"There, use `await runtime.run({program.name}, ...)` of an open runtime; "
            "inside a program just call it",
        )

    selection = selection or EngineSelection.from_environment(os.environ)
    content = content_config(os.environ)
    kept = (collector_of(os.environ, content.keep), transcripts_of(os.environ, content))
    observers = [one for one in kept if one is not None]

    async def main() -> Any:
        opening = open_runtime(
            engine=selection.settings(engine_file(os.environ), embedded.path()),
            observers=observers,
            programs=[program],
        )
        try:
            async with opening as runtime:
                return await runtime.run(program, *args, **kwargs)
        except BaseException:
            leave_threads()
            raise

    try:
        return anyio.run(main)
    except Exception as error:
        from agentrt.program.users_part import without_inner_frames

        raise without_inner_frames(error) from error.__cause__
    finally:
        for one in observers:
            one.close()


def _recording(path: Path, clock: Clock) -> RunRecording:
    from agentrt.recording import RunRecording  # with pydantic, for runs that are recorded

    return RunRecording(path, clock)


def _engines(choices: Mapping[str, EngineSettings]) -> str:
    """Identity of the engine of each role, as far as it determines durations."""
    return " ".join(sorted(f"{role}={_name(choice)}" for role, choice in choices.items()))


def _name(choice: EngineSettings) -> str:
    """An engine, as far as it decides how long things take."""
    if isinstance(choice, RemoteEngineConfig):
        return f"{choice.url}#{choice.model}" if choice.model else choice.url
    return f"{Path(choice.model_path).resolve()}@{choice.device}"


def _responses(choices: Mapping[str, EngineSettings], store: ResponseStore) -> ResponseCache:
    """The response cache of a runtime."""
    return ResponseCache(
        store,
        {role: engine_identity(choice) for role, choice in choices.items()},
        frozenset(role for role, choice in choices.items() if choice.response_cache),
    )


def _ordered(choice: EngineSettings, scheduler: SchedulerConfig | None) -> EngineSettings:
    """The engine, serving what waits by the same policy as the runtime."""
    if isinstance(choice, RemoteEngineConfig) or scheduler is None:
        return choice
    return replace(choice, policy=scheduler.policy)


def _warm(imported: threading.Event, *, waits: bool) -> None:
    """Bring in what programs need later, while the engines start.

    Args:
        imported: Set once the types of outputs are imported. The first generation needs them: it
            would import them in the event loop, where no deadline is kept meanwhile.
        waits: Whether an engine takes seconds for that. If none does, a reader of outputs is
            imported with the first output, after the first request.
    """
    try:
        from agentrt.structured import checked_shape_of, shape_of  # noqa: F401

        shape_of(int)  # with what pydantic imports for the first type alone
    finally:
        imported.set()
    if waits:
        from agentrt.structured import CallScanner, ItemScanner  # noqa: F401
    from agentrt.tools import prepare_declared

    prepare_declared()


def _remotes(
    choices: Mapping[str, EngineSettings],
    clock: Clock,
    config: RunConfig | None,
    limits: Mapping[str, Any],
    scheduler: SchedulerConfig,
) -> RemoteEngines | None:
    """The remote engines of a runtime; None if it has none, and needs no HTTP."""
    if not any(isinstance(choice, RemoteEngineConfig) for choice in choices.values()):
        return None
    from agentrt.remote import RemoteEngines

    deadline_s = config.deadline_s if config else None
    opening_s = deadline_s and max(deadline_s, MIN_OPENING_S)
    return RemoteEngines(clock, os.environ, {"opening_s": opening_s, **limits}, scheduler.policy)


def _backend(
    choice: EngineSettings,
    clock: Clock,
    place: Literal["process", "thread"],
    remotes: RemoteEngines | None,
) -> tuple[Backend, Codec | None]:
    if isinstance(choice, RemoteEngineConfig):
        assert remotes is not None, "they are made for every remote engine"
        return remotes.backend(choice), remotes.codec(choice)
    require_packages("the embedded engine")
    from agentrt.base.eagle3 import check_is_model
    from agentrt.engine.process.backend import EmbeddedBackend

    check_is_model(choice.model_path)
    backend = EmbeddedBackend(choice, clock, place=place)
    backend.launch()  # its process imports torch while we load the codec
    try:
        from agentrt.prompt import Codec

        codec = Codec.load(choice.model_path)
        for note in codec.notes:
            _log.warning("%s: %s", choice.model_path, note)
        if choice.prices is not None:
            return PricedBackend(backend, choice.prices, clock), codec
        return backend, codec
    except BaseException:
        backend.abandon()
        raise
