"""Run histories: prompts and values of a run, of which its next prompt may consist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentrt.base.canonical_json import content
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import NodeId
from agentrt.base.record import record
from agentrt.base.segments import Close, History, Open, Text, ToolSchema
from agentrt.program import Gen, Node
from agentrt.program.node import segment_of
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.program.source_texts import source_texts
from agentrt.scheduler.estimates.estimates import site_of
from agentrt.scheduler.estimates.prompt_model import PromptGuess
from agentrt.scheduler.estimates.prompt_parts import (
    EarlierPrompt,
    KnownParts,
    Origin,
    text_hash,
)
from agentrt.scheduler.estimates.prompt_patterns import PromptContext

MOST_PROMPTS = 8
MOST_VALUES = 128
MOST_PENDING = 8
MAX_VALUE_CHARACTERS = 20_000
MOST_SEEN_TEXTS = 64
_MAX_DEPTH = 3


@record
class PromptForm:
    """Form of the prompts of a call site, beside their messages.

    Attributes:
        role: Role of the engine.
        tools: Tools that the prompt describes.
        history: Form of earlier answers.
        constraint: Constraint of the output; None leaves it free, or is not known yet.
    """

    role: str
    tools: tuple[ToolSchema, ...]
    history: History
    constraint: ConstraintSpec | None


@dataclass(slots=True, eq=False)
class PendingGuess:
    """A point at which a program waits, and the guess what its next prompt is.

    Attributes:
        context: The point.
        known: Parts that were known there.
        guess: The guess, or None.
    """

    context: PromptContext
    known: KnownParts
    guess: PromptGuess | None


class SeenTexts:
    """Texts that a program writes every time: those in its source, and the last ones it has sent.

    Attributes:
        texts: The texts by hash.
        public: Hashes of those in its source.
    """

    def __init__(self, fn: Any) -> None:
        own = source_texts(fn) if fn is not None else frozenset[str]()
        self.texts = {text_hash(text): text for text in own}
        self.public = frozenset(self.texts)
        self._sent: dict[str, None] = {}

    def note_prompt(self, segments: tuple[Any, ...]) -> None:
        """Note the texts of a prompt; the oldest are forgotten."""
        for segment in segments:
            if not isinstance(segment, Text) or len(segment.text) > MAX_VALUE_CHARACTERS:
                continue
            name = text_hash(segment.text)
            if name in self.public:
                continue
            self._sent.pop(name, None)
            self._sent[name] = None
            self.texts[name] = segment.text
            if len(self._sent) > MOST_SEEN_TEXTS:
                oldest = next(iter(self._sent))
                del self._sent[oldest], self.texts[oldest]


@dataclass(slots=True, eq=False)
class ScopeHistory:
    """The calls of one program body.

    Attributes:
        sites: Call sites of the last two calls, the latest first.
        pending: Points since the last generation was sent.
    """

    sites: tuple[str, ...] = ()
    pending: list[PendingGuess] = field(default_factory=list)

    def begin_call(self, site: str) -> None:
        """Note a call."""
        self.sites = (site, *self.sites[:1])

    def context(self, program: str, site: str, phase: str) -> PromptContext:
        """The point at which a call begins or ends."""
        return (program, " < ".join([f"{site} {phase}", *(s for s in self.sites if s != site)]))


class RunHistory:
    """Prompts and values of one run.

    Args:
        program: Key of the program.
        texts: Texts that it writes every time.
        arguments: Arguments of the program by name.

    Attributes:
        program: Key of the program.
        scopes: Calls of each program body, by its node.
    """

    def __init__(self, program: str, texts: SeenTexts, arguments: Mapping[str, Any]) -> None:
        self.program = program
        self.scopes: dict[NodeId | None, ScopeHistory] = {}
        self._seen = texts
        self._prompts: dict[str, EarlierPrompt] = {}
        self._forms: dict[str, PromptForm] = {}
        self._values: dict[Origin, str] = {}
        for name, value in arguments.items():
            self._add_value(("argument", name), value)

    def scope(self, owner: NodeId | None) -> ScopeHistory:
        """The history of a program body."""
        return self.scopes.setdefault(owner, ScopeHistory())

    def known(self) -> KnownParts:
        """The parts that are known now."""
        prompts = tuple(reversed(self._prompts.values()))
        return KnownParts(prompts, dict(self._values), self._seen.texts, self._seen.public)

    def form_of(self, site: str) -> PromptForm | None:
        """Form of an earlier prompt of this run at a call site, or None."""
        return self._forms.get(site)

    def note_prompt(self, gen: Gen[Any], form: PromptForm) -> None:
        """Note a prompt that was sent."""
        segments = tuple(prompt_segments(gen.work.chat))
        self._seen.note_prompt(segments)
        self._set_prompt(node_site(gen), EarlierPrompt(node_site(gen), segments), form)

    def note_end(self, node: Node[Any]) -> None:
        """Note the value of a call that has ended well; a generation adds its answer, too."""
        site = node_site(node)
        self._add_value(("result", site), node.value)
        form = self._forms.get(site)
        if isinstance(node, Gen) and form is not None:
            answer = (Open("assistant"), segment_of(node, as_answer=True), Close())
            segments = (*prompt_segments(node.prompt), *answer)
            self._set_prompt(site, EarlierPrompt(site, segments), form)

    def _set_prompt(self, site: str, prompt: EarlierPrompt, form: PromptForm) -> None:
        self._prompts.pop(site, None)
        self._prompts[site], self._forms[site] = prompt, form
        if len(self._prompts) > MOST_PROMPTS:
            oldest = next(iter(self._prompts))
            del self._prompts[oldest], self._forms[oldest]

    def _add_value(self, origin: Origin, value: Any) -> None:
        for known in [one for one in self._values if one[: len(origin)] == origin]:
            del self._values[known]
        for path, text in _texts_of(value, 0):
            if len(self._values) >= MOST_VALUES:
                return
            if text and len(text) <= MAX_VALUE_CHARACTERS:
                self._values[*origin, *path] = text


def node_site(node: Node[Any]) -> str:
    """Call site of a node."""
    return site_of(node.name, node.site)


def _texts_of(value: Any, depth: int) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The texts that a prompt may have of a value: whole, and of each of its parts."""
    try:
        yield (), content(value)
    except Exception:  # it has no text, so no prompt has it
        return
    if depth == _MAX_DEPTH or isinstance(value, str):
        return
    parts: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        parts = [(key, part) for key, part in value.items() if isinstance(key, str)]
    elif isinstance(value, list | tuple):
        parts = list(enumerate(value))
    elif hasattr(value, "model_fields_set"):
        parts = list(value)
    for key, part in parts[:MOST_VALUES]:
        for path, text in _texts_of(part, depth + 1):
            yield (key, *path), text
