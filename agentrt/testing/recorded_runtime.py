"""Runtimes over a recording: one that replays it, and one that makes it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio

from agentrt import embedded
from agentrt.app import open_runtime
from agentrt.base.clock import MonotonicClock
from agentrt.base.config import RunConfig
from agentrt.base.engine_roles import EngineChoice
from agentrt.base.engine_selection import EngineSelection
from agentrt.base.engines.engine_file import engine_file
from agentrt.recording import RecordedGeneration, RunRecording, read_recording
from agentrt.runtime import RunOptions, Runtime
from agentrt.testing.played_run import ContentRecorder
from agentrt.testing.replay_answers import ReplayAnswers
from agentrt.testing.replay_script import ReplayScript
from agentrt.testing.replay_tools import ReplayTools
from agentrt.testing.scripted_runtime import ScriptedRuntime, outside_loop
from agentrt.testing.spelling import WordSpelling

T = TypeVar("T")


class RecordedRuntime(ScriptedRuntime):
    """Replays recorded runs; the fixture `recorded` makes it.

    Equal prompts get the recorded answers at the recorded times, in virtual time, questions to a
    person too, and tools that are not `pure` their recorded results. A prompt that has changed
    fails the test with its changes, even if the program goes on after the failure.

    Args:
        path: A recording, of `agentrt run --record` or of this fixture.
        options: Options of each run.
        config: Defaults for all runs.
        on_ask: Answers the programs' questions to a person in place of the recording.

    Raises:
        UsageError: The file is missing or is no recording.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        options: RunOptions | None = None,
        config: RunConfig | None = None,
        on_ask: Callable[[Any], Any] | None = None,
    ) -> None:
        recording = read_recording(Path(path))
        self._engines = recording.engines
        roles = ["default", *(role for role in recording.engines if role != "default")]
        self._scripts = {role: ReplayScript(recording, role) for role in roles}
        tools, answers = ReplayTools(recording), ReplayAnswers(recording)
        options = options or RunOptions()
        super().__init__(
            self._scripts["default"],
            models={role: self._scripts[role] for role in roles[1:]},
            options=replace(options, on_tool=tools),
            config=config,
            on_ask=on_ask or options.on_ask or answers,
        )
        self._problems |= {"tools": tools.problems, "questions": answers.problems}

    @property
    def unused(self) -> list[RecordedGeneration]:
        """Recorded generations that no prompt has asked for."""
        return [one for script in self._scripts.values() for one in script.unused]

    def spelling_of(self, role: str) -> WordSpelling:
        """Tokens and frames of the recorded engine."""
        engine, spelling = self._engines.get(role), WordSpelling()
        if engine is not None:
            spelling.call_frame = engine.frame
            spelling.think_frame = engine.think_frame or spelling.think_frame
        return spelling


class RecordingRuntime(ScriptedRuntime):
    """Records runs on real engines, and gives them as a replay does; time is real.

    Args:
        path: The file of the recording.
        engine: Engine of generations that name no model; None takes that of the environment.
        models: More engines, by role; None takes those of `agentrt.toml`.
        options: Options of each run.
        config: Defaults for all runs.
        on_ask: Answers the programs' questions to a person.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        engine: EngineChoice = None,
        models: Mapping[str, EngineChoice] | None = None,
        options: RunOptions | None = None,
        config: RunConfig | None = None,
        on_ask: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(options=options, config=config, on_ask=on_ask)
        self._clock = MonotonicClock()
        self._recording = RunRecording(Path(path), self._clock)
        self._engine_choice = engine
        self._models = models
        self._run_config = config

    def _on_loop(self, body: Callable[[Runtime], Awaitable[T]]) -> T:
        return outside_loop(partial(anyio.run, partial(self._main, body)))

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Runtime]:
        engine = self._engine_choice
        if engine is None:
            selection = EngineSelection.from_environment(os.environ)
            engine = selection.settings(engine_file(os.environ), embedded.path())
        opening = open_runtime(
            engine=engine,
            models=self._models,
            observers=[self._recording, ContentRecorder(self.note)],
            config=self._run_config,
            clock=self._clock,
        )
        async with opening as runtime:
            self._recording.note_engines(
                {role: one.capabilities for role, one in runtime.engines.items()}
            )
            yield runtime
