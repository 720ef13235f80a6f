"""Trace files in a folder of bounded size."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from agentrt.base.atomic_write import write_atomically
from agentrt.base.private_files import FILE_MODE, make_private_folder
from agentrt.telemetry.jaeger import jaeger_json
from agentrt.telemetry.resource import Resources, resources_of
from agentrt.telemetry.run_files import MAX_BYTES, MAX_FILES, RunFiles, run_file_name
from agentrt.telemetry.span import Trace

_SUFFIX = ".json"


class JaegerFile:
    """Writes each run as one Jaeger JSON file; `RunFiles` bounds their number and size.

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
        self._files = RunFiles(folder, _SUFFIX, max_files=max_files, max_bytes=max_bytes)
        self._batch_id = batch_id
        self._resources = resources or resources_of(os.environ)

    def export(self, traces: Sequence[Trace]) -> Path:
        """Write one file, named after the first trace.

        Raises:
            OSError: The folder cannot be written.
        """
        make_private_folder(self._folder)
        first = traces[0]
        start_us = first.spans[0].start_us
        path = self._folder / run_file_name(
            start_us, first.name, self._batch_id, first.trace_id, _SUFFIX
        )
        content = jaeger_json(traces, self._resources).encode()
        write_atomically(path, content, mode=FILE_MODE)
        self._files.prune(keep=path)
        return path
