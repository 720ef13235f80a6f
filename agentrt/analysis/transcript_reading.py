"""Reading of transcripts: each line is checked against the schema."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from agentrt.analysis.transcript import (
    SCHEMA,
    Transcript,
    TranscriptAttempt,
    TranscriptEnd,
    TranscriptError,
    TranscriptMessage,
    TranscriptNode,
    TranscriptPart,
    TranscriptPrompt,
    TranscriptRun,
)
from agentrt.base.errors import UsageError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MAX_FILE_BYTES = 256 << 20
_HINT = "give a transcript that `agentrt run` wrote, or see `agentrt trace list`"
_Line = TranscriptRun | TranscriptPrompt | TranscriptNode | TranscriptEnd
_FORMS: tuple[type, ...] = (
    *(TranscriptRun, TranscriptPrompt, TranscriptNode, TranscriptEnd),
    *(TranscriptMessage, TranscriptPart, TranscriptAttempt, TranscriptError),
)


def read_transcript(path: Path) -> Transcript:
    """The transcript in a file; of a run under way or killed, all whole lines.

    Example:
        ```python
        for turn in read_transcript(path).turns():
            print(turn.node.node, turn.node.outcome, len(turn.messages))
        ```

    Raises:
        UsageError: The file cannot be read, or a line of it does not have the form of the schema.
    """
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise UsageError(f"{path} has {size} bytes, too many for a transcript", hint=_HINT)
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=_HINT) from None
    lines = data.split(b"\n")
    lines.pop()  # "" behind the last line, or a line that was being written when the run was killed
    if not lines:
        raise UsageError(f"{path} is no transcript: it has no line", hint=_HINT)
    _check_schema(path, lines[0])
    return _transcript(path, [_line(path, number, line) for number, line in enumerate(lines, 1)])


def _check_schema(path: Path, line: bytes) -> None:
    try:
        schema = json.loads(line)["schema"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(f"{path} is no transcript: it names no schema", hint=_HINT) from None
    if schema != SCHEMA:
        raise UsageError(
            f"{path} has the schema {schema!r}, and this version reads {SCHEMA}",
            hint="read it with the version of agentrt that wrote it",
        )


def _line(path: Path, number: int, line: bytes) -> _Line:
    from pydantic import ValidationError

    try:
        return _reader().validate_json(line, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        where = f"{path}:{number}" + (f": {place}" if place else "")
        raise UsageError(f"{where}: {first['msg']}", hint=_HINT) from None


@cache
def _reader() -> TypeAdapter[_Line]:
    from pydantic import ConfigDict, Field, TypeAdapter

    for one in _FORMS:
        one.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[attr-defined]
    form: Any = Annotated[_Line, Field(discriminator="record")]
    return TypeAdapter(form)


def _transcript(path: Path, lines: list[_Line]) -> Transcript:
    run, *rest = lines
    assert isinstance(run, TranscriptRun)  # it has the schema
    prompts: dict[int, TranscriptPrompt] = {}
    nodes: list[TranscriptNode] = []
    end: TranscriptEnd | None = None
    for number, line in enumerate(rest, 2):
        where = f"{path}:{number}"
        match line:
            case _ if end is not None:
                raise UsageError(f"{where}: there is a line behind the end", hint=_HINT)
            case TranscriptRun():
                raise UsageError(f"{where}: a second run begins", hint=_HINT)
            case TranscriptPrompt(prompt, after):
                if prompt in prompts or (after is not None and after not in prompts):
                    what = "is there already" if prompt in prompts else "has no prompt before it"
                    raise UsageError(f"{where}: prompt {prompt} {what}", hint=_HINT)
                prompts[prompt] = line
            case TranscriptNode():
                if line.prompt is not None and line.prompt not in prompts:
                    raise UsageError(f"{where}: prompt {line.prompt} is missing", hint=_HINT)
                nodes.append(line)
            case TranscriptEnd():
                end = line
    nodes.sort(key=lambda node: node.number)
    return Transcript(run, prompts, tuple(nodes), end)
