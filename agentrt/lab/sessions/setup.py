"""Needs of sessions before an engine is opened: texts, a model, readers of prompts."""

from __future__ import annotations

import os
from pathlib import Path

from agentrt import embedded
from agentrt.base.engines.remote_engine_config import base_url
from agentrt.base.key_reference import key_name
from agentrt.base.record import record
from agentrt.lab.arms.peer_files import peer_files
from agentrt.lab.arms.served import Served
from agentrt.lab.checkpoints.shapes import shape_named
from agentrt.lab.flags import check_known, factors, names, require
from agentrt.lab.sessions.arms import KINDS, OWN, ArmSettings
from agentrt.lab.sessions.flags import SessionFlags
from agentrt.lab.sessions.model import EMBEDDED, SessionModel, session_model
from agentrt.lab.sessions.prompt_reader import CodecReader, LetterReader, PromptReader
from agentrt.lab.sessions.recorded import read_recordings
from agentrt.lab.sessions.source import (
    DRAWN,
    RecordedSource,
    SessionSource,
    drawn_source,
    named_tasks,
)
from agentrt.lab.sessions.wheel import recorded_wheel
from agentrt.lab.workloads.scale import Scale
from agentrt.prompt import Codec

_DTYPES = ("float32", "bfloat16")


@record
class SessionSetup:
    """Sessions to play, and the engines to play them on.

    Attributes:
        source: Sessions.
        engines: Names of engines.
        model: Model of the engines that are started; None if all are URLs.
        settings: Settings with which engines are opened.
        own_reader: Reads prompts as engines of `model` do.
        url_reader: Reads prompts for URLs.
    """

    source: SessionSource
    engines: tuple[str, ...]
    model: SessionModel | None
    settings: ArmSettings
    own_reader: PromptReader
    url_reader: PromptReader

    def reader(self, engine: str) -> PromptReader:
        """The reader of the prompts of an engine."""
        return self.url_reader if is_url(engine) else self.own_reader


def is_url(engine: str) -> bool:
    """True if an engine is named by its address."""
    return "://" in engine


def session_setup(flags: SessionFlags) -> SessionSetup:
    """Read sessions, and write the checkpoint of the model if engines need one.

    Raises:
        UsageError: A flag is out of range, or an engine was not built.
    """
    engines, traces = names(flags.engine), names(flags.trace)
    _check(flags, engines, traces)
    drawn = traces == (DRAWN,)
    recordings = () if drawn else read_recordings(recorded_wheel(flags.wheel_path))
    tasks = () if drawn else named_tasks(recordings, traces)
    started = [engine for engine in engines if not is_url(engine)]
    model = None
    if started:
        texts = tuple(task for recording in recordings for task in recording.sessions)
        model = session_model(flags.shape, texts, flags.window)
    source: SessionSource
    if drawn:
        folder = model.path if model is not None else flags.codec or Path(embedded.path())
        window = model.shape.window_tokens if model is not None else flags.window
        scale = factors(flags.scale, "--scale")
        require(bool(window), "sessions for a URL need a window", "Give --window 65536")
        source = drawn_source(folder / "tokenizer.json", window, scale, flags.seed)
    else:
        source = RecordedSource(tasks)
    own = CodecReader(Codec.load(model.path)) if model is not None else LetterReader()
    url = CodecReader(Codec.load(flags.codec)) if flags.codec is not None else LetterReader()
    return SessionSetup(source, engines, model, _settings(flags, model), own, url)


def _settings(flags: SessionFlags, model: SessionModel | None) -> ArmSettings:
    served = None
    if model is not None:
        served = Served(model.path, flags.dtype, flags.slots, flags.kv_tokens)
    key = _key(flags)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return ArmSettings(served, flags.threads, flags.model, headers)


def _key(flags: SessionFlags) -> str:
    return os.environ[key_name(flags.api_key, "--api-key")] if flags.api_key else ""


def _check(flags: SessionFlags, engines: tuple[str, ...], traces: tuple[str, ...]) -> None:
    """Check all that needs no model, before one is made."""
    for engine in engines:
        if is_url(engine):
            base_url(engine, "--engine ")
        else:
            check_known("--engine", (engine,), (*KINDS, "a URL"))
    _key(flags)
    if flags.codec is not None:
        Codec.load(flags.codec)
    if flags.shape != EMBEDDED:
        shape_named(flags.shape)
    alone = f"--trace {flags.trace}: drawn goes with no other"
    require(DRAWN not in traces or len(traces) == 1, alone, "Give --trace drawn alone")
    scaled = DRAWN in traces or not flags.scale
    require(scaled, "--scale is for drawn sessions", "Add --trace drawn, or leave --scale out")
    Scale().with_factors(factors(flags.scale, "--scale"))
    peer_files().check(*(engine for engine in engines if engine in KINDS and engine != OWN))
    check_known("--dtype", (flags.dtype,), _DTYPES)
    require(
        not flags.window or flags.shape != EMBEDDED or all(map(is_url, engines)),
        "the embedded model has a window of its own",
        "Leave --window out, or give a --shape",
    )
