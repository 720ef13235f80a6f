"""Transcripts of the runs of one command: written where they are kept, shown where asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from agentrt.base.content_config import ContentConfig
from agentrt.base.errors import UsageError
from agentrt.base.ids import RunId
from agentrt.telemetry.transcript_observer import TranscriptObserver


class RunTranscripts:
    """Transcripts of the runs of one command.

    Args:
        folder: Folder of trace files.
        config: Settings of what is kept; the choice has been made.
        batch_id: Id of the batch that the runs belong to; "" outside a batch.
        show: Whether transcripts are shown, those that are not kept included.
        warn: Reports an error.

    Attributes:
        observer: Observer for the runtime; None if there are no transcripts.
    """

    def __init__(
        self,
        folder: Path,
        config: ContentConfig,
        *,
        batch_id: str = "",
        show: bool = False,
        warn: Callable[[str], None],
    ) -> None:
        self._show = show
        self._temporary: TemporaryDirectory[str] | None = None
        if config.keep == "off" and show:
            self._temporary = TemporaryDirectory(prefix="agentrt-")
            folder = Path(self._temporary.name)
        self.observer: TranscriptObserver | None = None
        if show or config.keep != "off":
            self.observer = TranscriptObserver(folder, config=config, batch_id=batch_id, warn=warn)

    def show(self, run_id: RunId) -> None:
        """Print the transcript of a run that has ended, on standard error, where asked for."""
        if not self._show or self.observer is None:
            return
        path = self.observer.file_of(run_id)
        if path is None:
            sys.stderr.write(f"the transcript of run {run_id} is not written yet\n")
            return
        from agentrt.analysis.transcript_reading import read_transcript
        from agentrt.cli.transcript_text import MAX_LINES, write_transcript

        try:
            write_transcript(read_transcript(path), sys.stderr, MAX_LINES)
        except UsageError as error:  # the file is gone already
            sys.stderr.write(f"{error}\n")
        sys.stderr.write("\n")

    def kept_file(self, run_id: RunId) -> Path | None:
        """The transcript of a run that has ended; None if none is kept."""
        path = self.observer.file_of(run_id) if self.observer is not None else None
        return path if path is not None and self._temporary is None else None

    def close(self) -> None:
        """Write what is left; transcripts can still be shown."""
        if self.observer is not None:
            self.observer.close()

    def forget(self) -> None:
        """Remove what is not kept."""
        if self._temporary is not None:
            self._temporary.cleanup()
