"""Files of runs in a folder of bounded size: their names, and the removal of the oldest."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

TRANSCRIPT_SUFFIX = ".transcript.jsonl"
MAX_FILES = 200
MAX_BYTES = 64 * 1024 * 1024
MAX_BATCHES = 4


def run_file_name(start_us: int, program: str, batch_id: str, file_id: str, suffix: str) -> str:
    """Name of a file of one run; names sort by the start of the run.

    Args:
        start_us: Start of the run on the calendar.
        program: Name of its program.
        batch_id: Id of the batch that it belongs to, in hex; "" outside a batch.
        file_id: Id of its trace, or its own, in hex.
        suffix: End of the name, such as `.json`.
    """
    at = datetime.fromtimestamp(start_us / 1e6, tz=UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", program)[:60].strip("._-") or "run"
    name += f"@{batch_id}" if batch_id else ""
    return f"{at}Z-{name}-{file_id}{suffix}"


class RunFiles:
    """The files of one kind in a folder.

    The oldest are removed if there are too many or they are too large; other files in the folder
    are left alone. Files of a batch count for themselves, so that they do not push out those of
    other runs; the latest batches are kept.

    Args:
        folder: Folder of the files.
        suffix: End of their names.
        max_files: Maximum number of files to keep.
        max_bytes: Maximum size to keep; the newest file is kept whatever its size.
    """

    def __init__(
        self,
        folder: Path,
        suffix: str,
        *,
        max_files: int = MAX_FILES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._folder = folder
        self._max_files = max_files
        self._max_bytes = max_bytes
        stem = r"\d{8}T\d{6}\.\d{3}Z-[^@]+(?:@([0-9a-f]+))?-[0-9a-f]{16,32}"
        self._ours = re.compile(stem + re.escape(suffix))

    def prune(self, keep: Path) -> None:
        """Remove the oldest files except `keep`; names begin with the time, so they sort by age."""
        by_batch: dict[str, list[Path]] = {}
        for path in sorted(self._folder.iterdir(), reverse=True):
            match = self._ours.fullmatch(path.name)
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
