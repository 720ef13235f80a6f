"""Trace files in a folder of bounded size."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from agentrt.base.private_files import make_private_file, make_private_folder
from agentrt.telemetry.jaeger import jaeger_json
from agentrt.telemetry.resource import Resources, resources_of
from agentrt.telemetry.span import Trace

MAX_FILES = 200
MAX_BYTES = 64 * 1024 * 1024
_OURS = re.compile(r"\d{8}T\d{6}\.\d{3}Z-.+-[0-9a-f]{32}\.json")


class JaegerFile:
    """Writes each run as one Jaeger JSON file.

    The oldest of its own files are removed if there are too many or they are too large; other files
    in the folder are left alone.

    Args:
        folder: Folder of the files; created if missing.
        max_files: Maximum number of files to keep.
        max_bytes: Maximum size to keep; the newest file is kept whatever its size.
        resources: Resources of the spans; None reads the environment.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_files: int = MAX_FILES,
        max_bytes: int = MAX_BYTES,
        resources: Resources | None = None,
    ) -> None:
        self._folder = folder
        self._max_files = max_files
        self._max_bytes = max_bytes
        self._resources = resources or resources_of(os.environ)

    def export(self, traces: Sequence[Trace]) -> Path:
        """Write one file, named after the first trace.

        Raises:
            OSError: The folder cannot be written.
        """
        make_private_folder(self._folder)
        path = self._folder / _file_name(traces[0])
        draft = path.with_suffix(f".{os.getpid()}.part")
        try:
            make_private_file(draft)
            draft.write_text(jaeger_json(traces, self._resources), encoding="utf-8")
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        self._prune(keep=path)
        return path

    def _prune(self, keep: Path) -> None:
        """Remove the oldest files; names begin with the time, so they sort by age."""
        ours = [path for path in self._folder.iterdir() if _OURS.fullmatch(path.name)]
        ours = [keep, *sorted((path for path in ours if path != keep), reverse=True)]
        total_bytes = 0
        for count, path in enumerate(ours, 1):
            try:
                total_bytes += path.stat().st_size
                if path != keep and (count > self._max_files or total_bytes > self._max_bytes):
                    path.unlink()
            except FileNotFoundError:
                continue  # removed by another process


def _file_name(trace: Trace) -> str:
    start_us = trace.spans[0].start_us
    at = datetime.fromtimestamp(start_us / 1e6, tz=UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", trace.name)[:60].strip("._-") or "run"
    return f"{at}Z-{name}-{trace.trace_id}.json"
