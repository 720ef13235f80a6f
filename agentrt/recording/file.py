"""The file of a recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from agentrt.base.errors import UsageError
from agentrt.base.private_files import make_private_file

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

    from agentrt.recording.form import RecordedRuns

MARK = '{"schema":"agentrt.recording/'
"""Beginning of each recording."""


def read_recording(path: Path) -> RecordedRuns:
    """The recording in a file.

    Raises:
        UsageError: The file is missing, or a line is none of a recording.
    """
    from pydantic import ValidationError

    from agentrt.recording.form import (
        LINE,
        SCHEMA,
        Header,
        RecordedGeneration,
        RecordedQuestion,
        RecordedRuns,
        RecordedToolCall,
    )

    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"the recording {path} cannot be read: {error}",
            hint="Make it: agentrt run FILE --record RECORDING, or pytest --agentrt-record",
        ) from None
    try:
        first = json.loads(lines[0]) if lines else {}
    except ValueError:
        first = {}
    schema = first.get("schema") if isinstance(first, dict) else None
    if schema != SCHEMA:
        raise UsageError(
            f"{path} is no recording of this release: its first line has the schema {schema!r}, "
            f"not {SCHEMA!r}",
            hint="Record it anew: agentrt run FILE --record RECORDING, or pytest --agentrt-record",
        )
    number, found = 1, RecordedRuns()
    try:
        found.engines = Header.model_validate(first).engines
        for line in lines[1:]:
            number += 1
            one = LINE.validate_json(line)
            if isinstance(one, RecordedGeneration):
                found.generations.append(one)
            elif isinstance(one, RecordedToolCall):
                found.tool_calls.append(one)
            elif isinstance(one, RecordedQuestion):
                found.questions.append(one)
            else:
                found.runs.append(one)
    except ValidationError as error:
        raise UsageError(
            f"{path}:{number} is no line of a recording: {_first(error)}",
            hint="Record it anew; if it was edited, look at that line",
        ) from None
    return found


class RecordingFile:
    """A recording that is being written, readable by its owner only.

    Args:
        path: The file. A recording that is there is replaced with the first line; any other file is
            left alone.

    Raises:
        UsageError: The file is there and is no recording, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._has_begun = False
        try:
            if path.exists() and path.stat().st_size and not self._is_recording():
                raise UsageError(
                    f"{path} is no recording, and is left alone", hint="Name another file"
                )
            path.parent.mkdir(parents=True, exist_ok=True)
            make_private_file(path)  # told now, not when a run has ended
        except OSError as error:
            raise UsageError(
                f"{path} cannot be written: {error}", hint="Name another file"
            ) from None

    def write(self, header: BaseModel, lines: list[BaseModel]) -> None:
        """Append lines, behind the header if the file has none yet."""
        if not self._has_begun:
            lines = [header, *lines]
        with self.path.open("a" if self._has_begun else "w", encoding="utf-8") as file:
            for line in lines:
                plain = line.model_dump(mode="json", by_alias=True, exclude_defaults=True)
                kept = {**_named(line), **plain}
                file.write(json.dumps(kept, ensure_ascii=False, separators=(",", ":")) + "\n")
        self._has_begun = True

    def _is_recording(self) -> bool:
        with self.path.open("rb") as file:
            return file.read(len(MARK)) == MARK.encode()


def _named(line: BaseModel) -> dict[str, str]:
    """The field for the kind of a line, which is a default."""
    for name, label in (("schema_", "schema"), ("type", "type")):
        if (value := getattr(line, name, None)) is not None:
            return {label: value}
    return {}


def _first(error: ValidationError) -> str:
    one = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, one['loc']))}: {one['msg']}"
