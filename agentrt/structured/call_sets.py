"""Tool sets as constraints: a head with the tools' names, and a compiled grammar for each tool.

The grammar of a tool depends on its schema and the frame alone, and a head on the tools' names, so
that sets share both: of a set in which one schema has changed, only that tool is compiled again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.segments import CallFrame, ToolSchema
from agentrt.base.vocabulary import Vocab
from agentrt.structured.backends.llguidance_backend import LlguidanceConstraint
from agentrt.structured.call_grammars import FrameText, HeadPlace
from agentrt.structured.calls import HeldTool, held_tools, of_tool
from agentrt.structured.closing.example_text import shortest_instance
from agentrt.structured.grammar_cache import GrammarCache
from agentrt.structured.json_schema.compile_cost import may_take_long
from agentrt.structured.json_schema.native import lark_grammar
from agentrt.structured.vocabulary import Alphabet

MAX_TOOL_GRAMMARS = 2048
"""Grammars of tools that are kept, in all vocabularies and frames."""

_SHARE_BYTES = 2_000
"""Memory of one tool in a set, which shares the grammar with others."""

Endings = tuple[str, ...]
"""Texts that may follow a call; "" for none."""

_ToolKey = tuple[str, str, str]


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
        self._made: GrammarCache[_ToolKey, ToolGrammar] = GrammarCache(most)

    @property
    def compiled(self) -> int:
        """Number of tools compiled so far."""
        return self._made.compiled

    def get(
        self, tools: Iterable[HeldTool], frame: FrameText, alphabet: Alphabet, endings: Endings
    ) -> list[ToolGrammar]:
        """The grammars of tools' calls; what is not known is compiled in this thread.

        Raises:
            ConstraintError: A tool does not compile.
        """
        place = _place(alphabet.vocab, frame.frame, endings)

        def made(tool: HeldTool) -> ToolGrammar:
            shortest = shortest_instance(tool.schema.parameters)
            return ToolGrammar(
                _compiled_call(tool.schema, frame, alphabet, endings),
                None if shortest is None else frame.frame.arguments_text(shortest),
            )

        return [self._made.get(_key(place, tool), partial(made, tool)) for tool in tools]

    def unknown(
        self, tools: Iterable[HeldTool], endings: Endings, vocab: Vocab, frame: CallFrame
    ) -> list[HeldTool]:
        """The tools that are not compiled yet."""
        place = _place(vocab, frame, endings)
        by_key = {_key(place, tool): tool for tool in tools}
        return [by_key[key] for key in self._made.unknown(by_key)]


def _place(vocab: Vocab, frame: CallFrame, endings: Endings) -> str:
    """All that the grammar of a tool depends on besides the tool, hashed once for a set."""
    return repr((vocab.fingerprint, vocab.logits_size, frame, endings))


def _key(place: str, tool: HeldTool) -> _ToolKey:
    return place, tool.schema.name, tool.source


TOOL_GRAMMARS = ToolGrammars()
"""The compiled tools of this process."""

HEADS: GrammarCache[tuple[str, int, str], LlguidanceConstraint] = GrammarCache(64)
"""The compiled heads of this process, by vocabulary and text: a changed schema changes no head."""


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
        ready = TOOL_GRAMMARS.get(tools, self.frame, alphabet, self._first_endings)
        self._ready = dict(zip(self._tools, ready, strict=True))
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
        (made,) = TOOL_GRAMMARS.get([self._tools[named]], self.frame, self.alphabet, endings)
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
                self._compiled,
            )
        if names and spec.max_calls > 1:
            heads[HeadPlace.NAME] = self._compiled(frame.head(HeadPlace.NAME, names))
        return heads

    def _compiled(self, lark: str) -> LlguidanceConstraint:
        vocab = self.alphabet.vocab
        key = vocab.fingerprint, vocab.logits_size, lark
        return HEADS.get(key, partial(_compiled, self.alphabet, lark))

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
        return _exact_or_not(
            lambda exact: frame.call(tool, endings, exact=exact), partial(_compiled, alphabet)
        )
    except ConstraintError as wrong:
        raise of_tool(tool, wrong) from None


def _compiled(alphabet: Alphabet, lark: str) -> LlguidanceConstraint:
    return LlguidanceConstraint(lark_grammar(lark, forces=True), alphabet)


def _exact_or_not(
    lark_of: Callable[[bool], str], compiled: Callable[[str], LlguidanceConstraint]
) -> LlguidanceConstraint:
    """A grammar with exact numbers, or without: a part that nothing fits ends one of rules only."""
    try:
        return compiled(lark_of(True))
    except ConstraintError:
        return compiled(lark_of(False))
