"""The codec of simulated prompts, in which a text contains its token ids.

Texts that share tokens share ids, in a short form: `<7000+120>` stands for the 120 ids from 7000
on. An output grows by one letter a token: `<7120:xxx` stands for three ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from agentrt.base.segments import (
    JSON_ARRAY_FRAME,
    PLAIN_THINK_FRAME,
    Close,
    Generated,
    History,
    Hole,
    Open,
    Segment,
    Text,
    ToolSchema,
)
from agentrt.base.vocabulary import Vocab
from agentrt.lab.sim.token_ids import END_ID, HEADER_IDS, START_ID
from agentrt.prompt import Codec, Detokenizer, Encoded

FINGERPRINT = "simulated"
_RANGE = re.compile(r"<(\d+)(?:\+(\d+)>|:(x*))")
_BEGUN = re.compile(r"<(\d+):(x*)x")  # a tokenizer keeps the last word back: it may go on


def text_of(ids: range) -> str:
    """The text of these ids."""
    return f"<{ids.start}+{len(ids)}>"


class SimulatedCodec(Codec):
    """Encodes texts to ids, and decodes them.

    Args:
        start_tokens: Tokens that the template writes before the first message.
    """

    def __init__(self, start_tokens: int = 0) -> None:
        self.fingerprint = FINGERPRINT
        self.vocab = Vocab((), {}, (END_ID,), "", 0, FINGERPRINT)
        self.call_frame = JSON_ARRAY_FRAME
        self.think_frame = PLAIN_THINK_FRAME
        self.window_tokens = 0
        self.notes = ()
        self._start = (START_ID,) * start_tokens
        self._ids: dict[str, tuple[int, ...]] = {}

    def encode(
        self,
        tools: tuple[ToolSchema, ...],
        segments: Sequence[Segment],
        history: History = "template",
        cache_salt: str = "",
    ) -> Encoded:
        """The ids of a prompt, up to its first hole."""
        found = [*self._start]
        for segment in segments:
            match segment:
                case Open(role=role):
                    found.append(HEADER_IDS[role])
                case Close():
                    found.append(END_ID)
                case Text(text=text):
                    found += self._encoded(text)
                case Generated(token_ids=token_ids):
                    found += token_ids
                case Hole(begun=begun):
                    found += _begun_ids("".join(begun))
                    return Encoded(tuple(found), complete=False)
                case _:
                    raise ValueError(f"a simulated prompt holds no {type(segment).__name__}")
        found.append(HEADER_IDS["assistant"])
        return Encoded(tuple(found))

    def detokenizer(self, keep_special: bool = False) -> Detokenizer:
        """A detokenizer for an output."""
        return RangeDetokenizer()

    def _encoded(self, text: str) -> tuple[int, ...]:
        known = self._ids.get(text)
        if known is None:
            known = self._ids[text] = tuple(_ids_in(text))
        return known


class RangeDetokenizer(Detokenizer):
    """The text of an output with consecutive ids."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun = False

    def feed_ids(self, ids: Iterable[int]) -> str:
        """The text of more ids, a letter each."""
        new = list(ids)
        head = "" if self._begun or not new else f"<{new[0]}:"
        self._begun = self._begun or bool(new)
        return head + "x" * len(new)

    def flush(self) -> str:
        """The end of the text, which has all of its letters already."""
        return ""


def _begun_ids(text: str) -> Iterable[int]:
    """The ids of an output that is still being written, without the last."""
    begun = _BEGUN.fullmatch(text)
    return range(int(begun[1]), int(begun[1]) + len(begun[2])) if begun else ()


def _ids_in(text: str) -> Iterable[int]:
    for first, count, letters in _RANGE.findall(text):
        yield from range(int(first), int(first) + (int(count) if count else len(letters)))
