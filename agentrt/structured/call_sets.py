"""Tool sets as constraints: a head with the tools' names, and a compiled grammar for each tool.

The grammar of a tool depends on its schema and the frame alone, so that sets share it: of a set in
which one tool has changed, only the head and that tool are compiled again.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.segments import CallFrame, ToolSchema
from agentrt.base.vocabulary import Vocab
from agentrt.structured.backends.llguidance_backend import LlguidanceConstraint
from agentrt.structured.call_grammars import FrameText, HeadPlace
from agentrt.structured.calls import HeldTool, held_tools, of_tool
from agentrt.structured.closing.example_text import shortest_instance
from agentrt.structured.json_schema.compile_cost import may_take_long
from agentrt.structured.json_schema.native import lark_grammar
from agentrt.structured.vocabulary import Alphabet

MAX_TOOL_GRAMMARS = 2048
"""Grammars of tools that are kept, in all vocabularies and frames."""

_SHARE_BYTES = 2_000
"""Memory of one tool in a set, which shares the grammar with others."""

Endings = tuple[str, ...]
"""Texts that may follow a call; "" for none."""

_Key = tuple[str | int | CallFrame | Endings, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ToolGrammar:
    """One tool's compiled calls.

    Attributes:
        constraint: The calls, from the tool's name on.
        shortest: Shortest arguments found without the grammar, as written; or None.
    """

    constraint: LlguidanceConstraint
    shortest: str | None


class ToolGrammars:
    """Compiled tools of all sets, of which the last used are kept. Thread-safe."""

    def __init__(self, most: int = MAX_TOOL_GRAMMARS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._made: OrderedDict[_Key, ToolGrammar] = OrderedDict()
        self.compiled = 0

    def get(
        self, tool: HeldTool, frame: FrameText, alphabet: Alphabet, endings: Endings
    ) -> ToolGrammar:
        """The grammar of a tool's calls, compiled in this thread if it is not known.

        Raises:
            ConstraintError: The tool does not compile.
        """
        key = _key(tool, frame.frame, alphabet.vocab, endings)
        with self._lock:
            found = self._made.get(key)
            if found is not None:
                self._made.move_to_end(key)
                return found
        shortest = shortest_instance(tool.schema.parameters)
        made = ToolGrammar(
            _compiled_call(tool.schema, frame, alphabet, endings),
            None if shortest is None else frame.frame.arguments_text(shortest),
        )
        with self._lock:
            self.compiled += 1
            self._made[key] = made
            while len(self._made) > self._most:
                self._made.popitem(last=False)
        return made

    def unknown(
        self, tools: Iterable[HeldTool], endings: Endings, vocab: Vocab, frame: CallFrame
    ) -> list[HeldTool]:
        """The tools that are not compiled yet."""
        with self._lock:
            return [one for one in tools if _key(one, frame, vocab, endings) not in self._made]


def _key(tool: HeldTool, frame: CallFrame, vocab: Vocab, endings: Endings) -> _Key:
    name = tool.schema.name
    return (vocab.fingerprint, vocab.logits_size, frame, endings, name, tool.source)


TOOL_GRAMMARS = ToolGrammars()
"""The compiled tools of this process."""


class ToolSet:
    """The compiled tools of a spec, and the heads that lead to them.

    Args:
        spec: Spec of kind `calls`.
        frame: Frame of the model's calls.
        alphabet: The vocabulary.

    Attributes:
        spec: Spec of kind `calls`.
        frame: Texts of the model's frame.
        alphabet: The vocabulary.
        tells_early: Whether a call differs from a final answer in its opening.
        size_bytes: Approximate memory, without that of shared tools.
        is_costly: Whether masks may take long.

    Raises:
        ConstraintError: A part does not compile within the limits.
    """

    def __init__(self, spec: ConstraintSpec, frame: CallFrame, alphabet: Alphabet) -> None:
        self.spec = spec
        self.frame = FrameText(frame, alphabet.vocab)
        self.alphabet = alphabet
        tools = held_tools(spec)
        self._tools = {self.frame.named(tool.schema.name).encode(): tool for tool in tools}
        _check_names(self._tools)
        self.is_costly = any(tool.is_costly for tool in tools) or bool(
            spec.source and may_take_long(ConstraintSpec("json", spec.source))
        )
        self._names = {at: name.encode() for name, at in alphabet.vocab.special_ids.items()}
        self._final = json.loads(spec.source) if spec.source else None
        self._heads = self._compiled_heads()
        self._first_endings = self.endings(1)
        self._ready = {
            name: TOOL_GRAMMARS.get(tool, self.frame, alphabet, self._first_endings)
            for name, tool in self._tools.items()
        }
        self.tells_early = not spec.source or self._opening_is_no_answer()
        self.size_bytes = sum(head.size_bytes for head in self._heads.values())
        self.size_bytes += _SHARE_BYTES * len(spec.tools)

    def head(self, place: HeadPlace) -> LlguidanceConstraint:
        """The compiled head at a place."""
        return self._heads[place]

    def candidates(self, begun: bytes) -> list[bytes]:
        """The texts from name to arguments that begin as `begun` does, or are its beginning."""
        return [name for name in self._tools if name.startswith(begun) or begun.startswith(name)]

    def call(self, named: bytes, calls: int) -> LlguidanceConstraint:
        """The grammar of a tool's call, which is the one of this number, from 1."""
        endings = self.endings(calls)
        if endings == self._first_endings:
            return self._ready[named].constraint
        made = TOOL_GRAMMARS.get(self._tools[named], self.frame, self.alphabet, endings)
        return made.constraint

    def bytes_of(self, token: int) -> bytes:
        """The text of a token; a special token is its name."""
        return self._names.get(token) or self.alphabet.vocab.token_bytes[token]

    def endings(self, calls: int) -> Endings:
        """Texts of which one follows the call of this number, from 1."""
        return endings_of(self.spec, self.frame.frame, calls)

    def place_after(self, calls: int) -> HeadPlace | None:
        """Where a list of so many calls leads; None if the output is over."""
        if not self.spec.text or not self.frame.text_may_follow:
            return None
        return HeadPlace.TEXT if calls < self.spec.max_calls else HeadPlace.TAIL

    def guess(self) -> list[int] | None:
        """A short output found without the grammar."""
        if self.spec.text:
            return []
        frame, found = self.frame.frame, []
        calls = [
            frame.before + self.frame.named(tool.name) + made.shortest + frame.after
            for tool, made in zip(self.spec.tools, self._ready.values(), strict=True)
            if made.shortest is not None
        ]
        if calls:
            count = max(self.spec.min_calls, 1)
            shortest = min(calls, key=len)
            found.append(frame.first + frame.between.join([shortest] * count) + frame.last)
        if self.spec.tools and self.spec.min_calls == 0:
            found.append(frame.first + frame.last)
        answer = shortest_instance(self._final, self.spec.style) if self.spec.source else None
        if answer is not None:
            found.append(answer)
        if not found:
            return None
        return self.alphabet.tokenize_pieces(self.frame.pieces(min(found, key=len)))

    def _compiled_heads(self) -> dict[HeadPlace, LlguidanceConstraint]:
        spec, frame = self.spec, self.frame
        names = [tool.name for tool in spec.tools]
        heads: dict[HeadPlace, LlguidanceConstraint] = {}
        if spec.text:
            for place in (HeadPlace.TEXT, HeadPlace.TAIL):
                heads[place] = self._compiled(frame.head_in_text(place, names))
            heads[HeadPlace.FIRST] = heads[HeadPlace.TEXT]
        else:
            heads[HeadPlace.FIRST] = _exact_or_not(
                lambda exact: frame.head(
                    HeadPlace.FIRST, names, self._final, spec.min_calls, spec.style, exact=exact
                ),
                self.alphabet,
            )
        if names and spec.max_calls > 1:
            heads[HeadPlace.NAME] = self._compiled(frame.head(HeadPlace.NAME, names))
        return heads

    def _compiled(self, lark: str) -> LlguidanceConstraint:
        return LlguidanceConstraint(lark_grammar(lark, forces=True), self.alphabet)

    def _opening_is_no_answer(self) -> bool:
        opening = self.frame.pieces(self.frame.opening)
        if isinstance(opening[0], int):
            return True
        head = self.frame.head(HeadPlace.FIRST, [], self._final, style=self.spec.style)
        answer = self._compiled(head).start()
        tokens = self.alphabet.tokenize_pieces(opening)
        return answer.advance(tokens) < len(tokens)


def _check_names(named: Iterable[bytes]) -> None:
    """Refuse names of which one begins another, if nothing ends a name in the frame.

    Raises:
        ConstraintError: Names the two.
    """
    texts = sorted(named)
    for one, other in pairwise(texts):
        if other.startswith(one):
            raise ConstraintError(
                f"the name of the tool {one.decode()} begins that of {other.decode()}, and nothing "
                "ends a name in the calls of this model",
                hint="Rename one of them",
            )


def endings_of(spec: ConstraintSpec, frame: CallFrame, calls: int) -> Endings:
    """Texts of which one follows the call of this number, from 1."""
    if spec.text and not frame.last and not frame.first:
        return ("",)  # free text follows, in which the next call is found
    found = (frame.last,) if calls >= spec.min_calls else ()
    return (*found, frame.between + frame.before) if calls < spec.max_calls else found


def _compiled_call(
    tool: ToolSchema, frame: FrameText, alphabet: Alphabet, endings: Endings
) -> LlguidanceConstraint:
    try:
        return _exact_or_not(lambda exact: frame.call(tool, endings, exact=exact), alphabet)
    except ConstraintError as wrong:
        raise of_tool(tool, wrong) from None


def _exact_or_not(lark_of: Callable[[bool], str], alphabet: Alphabet) -> LlguidanceConstraint:
    """A grammar with exact numbers, or without: a part that nothing fits ends one of rules only."""
    try:
        return LlguidanceConstraint(lark_grammar(lark_of(True), forces=True), alphabet)
    except ConstraintError:
        return LlguidanceConstraint(lark_grammar(lark_of(False), forces=True), alphabet)
