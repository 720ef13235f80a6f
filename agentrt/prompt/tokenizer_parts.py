"""Parts of a tokenizer: markers, which only templates write, and text, which is data.

Text is encoded by tokenizers that do not know the markers at all, so that `<|im_end|>` inside a
user's string is spelled out like any other text.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import repeat
from typing import Any

from agentrt.base.errors import ModelInvalid
from agentrt.base.vocabulary import Vocab
from agentrt.prompt.model_files import ModelFiles
from agentrt.prompt.text_encoder import TextEncoder
from agentrt.prompt.text_frame import text_frame
from agentrt.prompt.token_bytes import bytes_by_id
from agentrt.prompt.token_lengths import most_text_bytes

MAX_TOKENS = 10_000_000
_MOST_SHOWN = 500
LOOKS_LIKE_MARKER = re.compile(r"<[|\uff5c].*[|\uff5c]>|\[/?[A-Z_]+\]")


@dataclass(frozen=True, slots=True)
class Marker:
    """An added token that text never becomes.

    Attributes:
        text: Text in templates.
        token_id: Id of the token.
        hidden: Whether it is special, and left out of text for people.
        eats_left: Whether whitespace before it belongs to it.
        eats_right: Whether whitespace after it belongs to it.
    """

    text: str
    token_id: int
    hidden: bool
    eats_left: bool
    eats_right: bool


class TokenizerParts:
    """Markers, vocabulary and text encoder of one model."""

    def __init__(self, files: ModelFiles) -> None:
        """Read the tokenizer of `files`.

        Raises:
            ModelInvalid: The JSON is broken, or of an unsupported family.
        """
        tokenizer = _parse(files)
        added = _added_tokens(files, tokenizer)
        self.markers: dict[str, Marker] = {
            entry["content"]: _marker(entry) for entry in added if _is_marker(entry, files)
        }
        kept = [entry for entry in added if entry["content"] not in self.markers]
        try:
            self.texts = TextEncoder(tokenizer, kept, frozenset(self.markers))
            self.text_frame = text_frame(tokenizer)
        except Exception as error:  # tokenizers raises bare Exception
            raise _broken(files, error) from error
        self.eos_ids = _eos_ids(files, added)
        self.vocab = _vocab(files, tokenizer, added, self.markers, self.eos_ids)
        self.most_text_bytes = most_text_bytes(tokenizer, kept, self.vocab.token_bytes)
        alternatives = sorted(self.markers, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, alternatives)) or r"(?!)")
        self.pieces = lru_cache(maxsize=8192)(self._pieces)

    def with_eos(self, more: tuple[int, ...]) -> Vocab:
        """The vocabulary with `more` ids that end an output."""
        eos_ids = tuple(dict.fromkeys((*self.vocab.eos_ids, *more)))
        mark = hashlib.sha256(f"{self.vocab.fingerprint}{eos_ids}".encode()).hexdigest()[:32]
        return replace(self.vocab, eos_ids=eos_ids, fingerprint=mark)

    def first_marker(self, text: str) -> Marker | None:
        """The first marker written in `text`."""
        found = self._pattern.search(text)
        return self.markers[found[0]] if found else None

    def escape(self, text: str, mark: str) -> str:
        """`text` with `mark` inside everything that looks like a marker, so that none is left."""
        return self._pattern.sub(lambda found: found[0][0] + mark + found[0][1:], text)

    def _pieces(self, literal: str) -> tuple[str | Marker, ...]:
        """Template text cut into text and markers."""
        pieces: list[str | Marker] = []
        end = 0
        for found in self._pattern.finditer(literal):
            if found.start() > end:
                pieces.append(literal[end : found.start()])
            pieces.append(self.markers[found[0]])
            end = found.end()
        if end < len(literal):
            pieces.append(literal[end:])
        return tuple(pieces)


def _parse(files: ModelFiles) -> dict[str, Any]:
    try:
        tokenizer = json.loads(files.tokenizer_json)
    except (ValueError, RecursionError) as error:
        raise _broken(files, error) from error
    if not isinstance(tokenizer, dict):
        raise _broken(files, "no JSON object")
    return tokenizer


def _broken(files: ModelFiles, why: object) -> ModelInvalid:
    return ModelInvalid(
        f"{files.tokenizer_path} is not a tokenizer: {str(why)[:_MOST_SHOWN]}",
        hint="Save the tokenizer again",
    )


def _added_tokens(files: ModelFiles, tokenizer: dict[str, Any]) -> list[dict[str, Any]]:
    added = tokenizer.get("added_tokens") or []
    if not isinstance(added, list) or not all(map(_is_added_token, added)):
        raise _broken(files, "an entry of added_tokens has no text or no id")
    return [entry for entry in added if entry["content"]]


def _is_added_token(entry: Any) -> bool:
    if not isinstance(entry, dict) or type(entry.get("id")) is not int:
        return False
    return isinstance(entry.get("content"), str)


def _is_marker(entry: dict[str, Any], files: ModelFiles) -> bool:
    """Whether only templates and models may write this token.

    True for special tokens, tokens with a role or in the template, and those that look like control
    tokens. The rest (runs of spaces, HTML tags in some vocabularies) is ordinary text.
    """
    text = entry["content"]
    if text.isspace():
        return False
    if entry.get("special") or entry["id"] in files.eos_ids or LOOKS_LIKE_MARKER.fullmatch(text):
        return True
    return text in files.special_texts.values() or any(
        text in template for template in files.templates.values()
    )


def _marker(entry: dict[str, Any]) -> Marker:
    return Marker(
        text=entry["content"],
        token_id=entry["id"],
        hidden=bool(entry.get("special")),
        eats_left=bool(entry.get("lstrip")),
        eats_right=bool(entry.get("rstrip")),
    )


def _eos_ids(files: ModelFiles, added: list[dict[str, Any]]) -> tuple[int, ...]:
    by_text = {entry["content"]: entry["id"] for entry in added}
    named = [by_text[text] for text in files.eos_texts if text in by_text]
    return tuple(dict.fromkeys((*files.eos_ids, *named)))


def _vocab(
    files: ModelFiles,
    tokenizer: dict[str, Any],
    added: list[dict[str, Any]],
    markers: dict[str, Marker],
    eos_ids: tuple[int, ...],
) -> Vocab:
    table = bytes_by_id(tokenizer)
    for entry in added:
        text = entry["content"]
        table[entry["id"]] = b"" if text in markers else text.encode()
    are_numbers = {*map(type, table)} <= {int}
    if not are_numbers or (table and not 0 <= min(table) <= max(table) < MAX_TOKENS):
        raise _broken(files, f"an id is no number from 0 to {MAX_TOKENS}")
    size = max(table, default=-1) + 1
    if files.logits_size and files.logits_size < size:
        raise ModelInvalid(
            f"{files.path}: the tokenizer has {size} tokens, the model {files.logits_size}",
            hint="The tokenizer belongs to another model: copy the one that came with the weights",
        )
    logits_size = files.logits_size or size
    special_ids = {text: marker.token_id for text, marker in markers.items()}
    rest = json.dumps([special_ids, eos_ids, logits_size], sort_keys=True)
    mark = hashlib.sha256((files.tokenizer_json + rest).encode()).hexdigest()[:32]
    token_bytes = tuple(map(table.get, range(size), repeat(b"")))
    return Vocab(token_bytes, special_ids, eos_ids, files.tokenizer_json, logits_size, mark)
