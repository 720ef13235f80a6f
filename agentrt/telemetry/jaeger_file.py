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
MAX_BATCHES = 4
_OURS = re.compile(r"\d{8}T\d{6}\.\d{3}Z-[^@]+(?:@([0-9a-f]+))?-[0-9a-f]{32}\.json")


class JaegerFile:
    """Writes each run as one Jaeger JSON file.

    The oldest of its own files are removed if there are too many or they are too large; other files
    in the folder are left alone. Files of a batch count for themselves, so that they do not push
    out those of other runs; the latest batches are kept.

    Args:
        folder: Folder of the files; created if missing.
        max_files: Maximum number of files to keep.
        max_bytes: Maximum size to keep; the newest file is kept whatever its size.
        batch_id: Id of the batch that the runs belong to, in hex; "" outside a batch.
        resources: Resources of the spans; None reads the environment.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_files: int = MAX_FILES,
        max_bytes: int = MAX_BYTES,
        batch_id: str = "",
        resources: Resources | None = None,
    ) -> None:
        self._folder = folder
        self._max_files = max_files
        self._max_bytes = max_bytes
        self._batch_id = batch_id
        self._resources = resources or resources_of(os.environ)

    def export(self, traces: Sequence[Trace]) -> Path:
        """Write one file, named after the first trace.

        Raises:
            OSError: The folder cannot be written.
        """
        make_private_folder(self._folder)
        path = self._folder / _file_name(traces[0], self._batch_id)
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
        by_batch: dict[str, list[Path]] = {}
        for path in sorted(self._folder.iterdir(), reverse=True):
            match = _OURS.fullmatch(path.name)
            if match:
                by_batch.setdefault(match[1] or "", []).append(path)
        self._limit(by_batch.pop("", []), keep)
        for count, files in enumerate(by_batch.values(), 1):  # the latest batch first
            self._limit(files, keep, 0 if count > MAX_BATCHES else None)

    def _limit(self, files: list[Path], keep: Path, max_files: int | None = None) -> None:
        """Remove all but the first files of a list, the newest."""
        max_files = self._max_files if max_files is None else max_files
        total_bytes = 0
        if keep in files:
            files.insert(0, files.pop(files.index(keep)))
        for count, path in enumerate(files, 1):
            try:
                total_bytes += path.stat().st_size
                if path != keep and (count > max_files or total_bytes > self._max_bytes):
                    path.unlink()
            except FileNotFoundError:
                continue  # removed by another process


def _file_name(trace: Trace, batch_id: str) -> str:
    start_us = trace.spans[0].start_us
    at = datetime.fromtimestamp(start_us / 1e6, tz=UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", trace.name)[:60].strip("._-") or "run"
    name += f"@{batch_id}" if batch_id else ""
    return f"{at}Z-{name}-{trace.trace_id}.json"
