"""The observer that writes the transcript of each run to a file of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from agentrt.base.content_config import ContentConfig
from agentrt.base.ids import RunId
from agentrt.base.private_files import make_private_file, make_private_folder
from agentrt.protocol.events import (
    Event,
    NodeDeclared,
    NodeFinished,
    RequestSent,
    RunFinished,
    RunStarted,
    Scheduled,
    ToolEnded,
)
from agentrt.protocol.node_content import NodeContent
from agentrt.telemetry.observer import FLUSH_S, MAX_REMEMBERED
from agentrt.telemetry.run_files import TRANSCRIPT_SUFFIX, RunFiles, run_file_name
from agentrt.telemetry.settings import RUNS_FOLDER, runs_folder

if TYPE_CHECKING:
    from agentrt.telemetry.transcript_lines import RunLines

WRITE_EVERY_S = 0.5
"""Longest time for which what a run has said is in memory only."""
BATCH_ITEMS = 512
"""Events and contents, of some 128 nodes, that wait for no more: the garbage collector walks over
all that waits."""
TURN_ITEMS = 64
"""Events and contents of one turn, which takes some 0.2 ms."""
PAUSE_S = 0.001
"""Pause between two turns."""
MAX_WAITING_CHARACTERS = 64 << 20
"""Characters that wait to be written; what comes while there are as many is left out."""
TakenEvent = (
    RunStarted | NodeDeclared | RequestSent | Scheduled | ToolEnded | NodeFinished | RunFinished
)
_TAKEN = frozenset(get_args(TakenEvent))
"""Events that transcripts are made of; of others nothing is kept in memory."""
_log = logging.getLogger("agentrt.telemetry")


class TranscriptObserver:
    """Writes what was said in each run to a file in a folder, while the run goes on.

    The loop pays for an append; a thread makes the lines and writes them. Nothing here ever raises
    into the run: an error is reported once, in one line. See `agentrt.analysis.transcript` for the
    format, and `redact_content` for redaction.

    Example:
        ```python
        with TranscriptObserver(Path("transcripts")) as transcripts:
            async with open_runtime(observers=[transcripts]) as runtime:
                print(await runtime.run(finance, "Which returned more, AAPL or IBM?"))
        ```

    Attributes:
        files: Transcript of each of the latest runs that have ended.

    Args:
        folder: Folder of the files, whose number and size are bounded; created if missing.
        config: Limits of size.
        batch_id: Id of the batch that the runs belong to, in hex; "" outside a batch.
        warn: Reports an error; None logs it.
        write_every_s: Longest time for which what a run has said is in memory only.
    """

    def __init__(
        self,
        folder: Path = RUNS_FOLDER,
        *,
        config: ContentConfig | None = None,
        batch_id: str = "",
        warn: Callable[[str], None] | None = None,
        write_every_s: float = WRITE_EVERY_S,
    ) -> None:
        self._write_every_s = write_every_s
        self._folder = folder
        self._config = config or ContentConfig()
        self._batch_id = batch_id
        self._warn = warn or _log.warning
        self._warned = False
        self._pruning = RunFiles(folder, TRANSCRIPT_SUFFIX)
        self._queue: deque[TakenEvent | NodeContent] = deque()
        self._flushes: deque[threading.Event] = deque()
        self._given_characters = 0  # written by the loop alone
        self._taken_characters = 0  # written by the thread alone
        self._runs: dict[RunId, RunLines] = {}
        self._paths: dict[RunId, Path] = {}
        self._thread: threading.Thread | None = None
        self._work = threading.Event()
        self._hurry = threading.Event()
        self._is_awake = False
        self._closed = False
        self.files: dict[RunId, Path] = {}

    def __enter__(self) -> TranscriptObserver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def on_events(self, events: Sequence[Event]) -> None:
        """Take a batch of events; returns at once."""
        if self._closed:
            return
        queue = self._queue
        for event in events:
            if type(event) in _TAKEN:
                queue.append(event)  # type: ignore[arg-type]  # the set holds no others
        if queue and not self._is_awake:
            self._wake()
        elif len(queue) > BATCH_ITEMS and not self._hurry.is_set():
            self._hurry.set()

    def on_content(self, content: NodeContent) -> None:
        """Take the content of a node, whose end is the next event; returns at once."""
        if self._closed:
            return
        if self._given_characters - self._taken_characters > MAX_WAITING_CHARACTERS:
            content = _left_out(content)
        self._given_characters += content.characters
        self._queue.append(content)

    def file_of(self, run_id: RunId, timeout_s: float = FLUSH_S) -> Path | None:
        """The transcript of a run that has ended; None if it could not be written."""
        if run_id not in self.files:
            self.flush(timeout_s)
        return self.files.get(run_id)

    def flush(self, timeout_s: float = FLUSH_S) -> bool:
        """Wait until all that was said is written, at most `timeout_s`."""
        if self._thread is None or not self._thread.is_alive():
            return True
        done = threading.Event()
        self._flushes.append(done)
        self._hurry.set()
        self._work.set()
        return done.wait(timeout_s)

    def close(self, timeout_s: float = FLUSH_S) -> None:
        """Write what is left, in at most `timeout_s`. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._thread is not None:
            self._hurry.set()
            self._work.set()
            self._thread.join(timeout_s)

    def _wake(self) -> None:
        self._is_awake = True
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="agentrt-transcripts", daemon=True
            )
            self._thread.start()
        self._work.set()

    def _run(self) -> None:
        while True:
            self._work.wait()
            self._hurry.wait(self._write_every_s)  # lets more come: each write costs its own
            self._work.clear()
            in_haste = self._hurry.is_set()
            self._hurry.clear()
            self._is_awake = False
            closed = self._closed
            self._drain(in_haste=in_haste)
            if closed:
                return

    def _drain(self, *, in_haste: bool) -> None:
        """Make lines of all that waits, in short turns: the loop waits for each of them."""
        flushes = [self._flushes.popleft() for _ in range(len(self._flushes))]
        due_at_s = time.monotonic() + self._write_every_s
        while self._queue:
            self._take_turn()
            if self._queue and not in_haste:
                in_haste = self._hurry.wait(PAUSE_S)
            if time.monotonic() >= due_at_s:  # redaction, or a great deal of text, takes long
                self._write_all()
                due_at_s = time.monotonic() + self._write_every_s
        self._write_all()
        for done in flushes:
            done.set()

    def _write_all(self) -> None:
        """Append the new lines of each run to its file."""
        for run_id in tuple(self._runs):
            self._write(run_id)

    def _take_turn(self) -> None:
        """Make lines of what has waited longest."""
        queue, runs = self._queue, self._runs
        for _ in range(min(len(queue), TURN_ITEMS)):
            found = queue.popleft()
            try:
                if type(found) is RunStarted:
                    self._begin_run(found)
                elif found.run_id in runs:
                    runs[found.run_id].add(found)
            except Exception as error:
                self._warn_once(f"a part of a transcript is lost: {error!r}")
            if type(found) is NodeContent:
                self._taken_characters += found.characters

    def _begin_run(self, started: RunStarted) -> None:
        from agentrt.telemetry.transcript_lines import RunLines  # a run waits for none of it

        if started.run_id in self._runs:  # an id is free again once its run has ended
            self._write(started.run_id)
        self._runs[started.run_id] = RunLines(started, self._config)

    def _write(self, run_id: RunId) -> None:
        """Append the new lines of a run to its file; a run that cannot be written is given up."""
        try:
            self._append(run_id)
        except OSError as error:
            self._runs.pop(run_id, None)
            self._warn_once(f"the transcript of run {run_id} is lost: {error}")

    def _append(self, run_id: RunId) -> None:
        run = self._runs[run_id]
        data = run.take_bytes()
        if not data:
            return
        path = self._paths.get(run_id)
        if path is None:
            path = self._paths[run_id] = self._begin(run)
        with path.open("ab") as opened:
            opened.write(data)
        if run.is_over:
            del self._runs[run_id], self._paths[run_id]
            self._pruning.prune(keep=path)
            self.files[run_id] = path
            if len(self.files) > MAX_REMEMBERED:
                del self.files[next(iter(self.files))]

    def _begin(self, run: RunLines) -> Path:
        """Create the file of a run; a file of another run with that id is replaced."""
        started = run.started
        make_private_folder(self._folder)
        path = self._folder / run_file_name(
            started.unix_ns // 1000,
            started.program,
            self._batch_id,
            started.run_id,
            TRANSCRIPT_SUFFIX,
        )
        path.unlink(missing_ok=True)
        make_private_file(path)
        return path

    def _warn_once(self, text: str) -> None:
        if not self._warned:
            self._warned = True
            self._warn(f"telemetry: {text}")


def transcripts_of(
    environment: Mapping[str, str], config: ContentConfig
) -> TranscriptObserver | None:
    """An observer that keeps transcripts where traces are kept; None if that was not asked for."""
    if config.keep not in ("transcript", "spans"):
        return None
    return TranscriptObserver(runs_folder(environment), config=config)


def _left_out(content: NodeContent) -> NodeContent:
    """The content of a node without its texts, because too many wait to be written."""
    return NodeContent(
        content.run_id,
        content.node_id,
        call_id=content.call_id,
        result="[left out: too much was waiting to be written]",
        has_result=content.has_result,
    )
