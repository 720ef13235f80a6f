"""Texts and chats of a calibration file, as sequences of a model's tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentrt.base.errors import AgentrtError, UsageError
from agentrt.base.segments import Segment, ToolSchema
from agentrt.program.messages import segments_of
from agentrt.prompt.text_encoder import TextPosition
from agentrt.prompt.text_file import file_blocks, file_ids, lines_of, pieces_of

if TYPE_CHECKING:
    from agentrt.prompt.codec import Codec

_JSON_LINES = {".jsonl", ".ndjson"}
_HINT = 'Write {"text": "..."} or {"messages": [...]} on each line'


def read_sequences(
    path: Path, codec: Codec, *, length: int, most: int, flag: str
) -> list[tuple[int, ...]]:
    """Token ids of the first sequences of a file.

    A file named `*.jsonl` has an object a line: `text`, or `messages` and maybe `tools`, which the
    model's chat template writes. Any other file is one text. Longer texts are cut in pieces.

    Args:
        path: The file.
        codec: Codec of the model.
        length: Most tokens of a sequence.
        most: Most sequences.
        flag: Flag that named the file, for errors.

    Raises:
        UsageError: The file cannot be read, a line is wrong, or nothing is in it.
    """
    hint = f"Give {flag} a file of UTF-8 text"
    pieces: Iterator[tuple[int, ...]]
    if path.suffix in _JSON_LINES:
        lines = _json_lines(path, codec, hint)
        pieces = (piece for ids in lines for piece in pieces_of([ids], length))
    else:
        pieces = pieces_of(_text(path, codec, hint), length)
    found = list(islice((piece for piece in pieces if len(piece) > 1), most))
    if not found:
        raise UsageError(f"{path} has no text", hint=f"Give {flag} a file with some pages of text")
    return found


def _text(path: Path, codec: Codec, hint: str) -> Iterator[tuple[int, ...]]:
    """The ids of a whole text, with the special tokens that the tokenizer puts around one."""
    before, behind = codec.parts.text_frame
    position = TextPosition.AFTER_MARKER if before else TextPosition.START
    if not any(block.strip() for block in file_blocks(path, hint=hint)):
        return
    yield before
    yield from file_ids(codec.parts.texts, path, position, hint=hint)
    yield behind


def _json_lines(path: Path, codec: Codec, hint: str) -> Iterator[tuple[int, ...]]:
    lines = lines_of(file_blocks(path, hint=hint))
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _ids_of(line, codec, f"{path}:{number}")


def _ids_of(line: str, codec: Codec, place: str) -> tuple[int, ...]:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place} is not JSON: {error}", hint=_HINT) from None
    if not isinstance(given, dict):
        raise UsageError(f"{place} is no object", hint=_HINT)
    text, messages = given.get("text"), given.get("messages")
    if isinstance(text, str) and messages is None:
        return codec.text_ids(text)
    if not isinstance(messages, list) or text is not None:
        raise UsageError(f"{place} has neither a text nor a list of messages", hint=_HINT)
    try:
        segments = [one for message in segments_of(messages) for one in message]
        return _chat_ids(codec, _tools_of(given.get("tools") or []), segments)
    except (AgentrtError, KeyError, TypeError, AttributeError) as error:
        reason = error.message if isinstance(error, AgentrtError) else f"a tool lacks {error}"
        raise UsageError(f"{place} is no chat: {reason}", hint=_HINT) from None


def _chat_ids(
    codec: Codec, tools: tuple[ToolSchema, ...], segments: list[Segment]
) -> tuple[int, ...]:
    return codec.encode(tools, segments).token_ids


def _tools_of(given: list[dict[str, Any]]) -> tuple[ToolSchema, ...]:
    functions = [one["function"] for one in given]
    return tuple(
        ToolSchema(one["name"], one.get("description", ""), one.get("parameters", {}))
        for one in functions
    )
