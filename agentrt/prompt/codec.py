"""The codec of a model: tokenizer, chat template and call format as one thing.

It turns segments into token ids and token ids into text, in the program's process and in the
engine's alike. No torch and no transformers here.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from agentrt.base.errors import AgentrtError, ModelInvalid, RequestRejected, Unsupported
from agentrt.base.gc_pause import gc_pause
from agentrt.base.gguf.checkpoint_files import is_gguf
from agentrt.base.segments import (
    CallFrame,
    CallMade,
    Generated,
    History,
    Hole,
    Open,
    PromptIds,
    Segment,
    Text,
    ThinkFrame,
    ToolSchema,
)
from agentrt.base.vocabulary import Vocab
from agentrt.prompt.composer import Composer, LayoutMismatch
from agentrt.prompt.detokenizer import Detokenizer
from agentrt.prompt.encoded import Encoded, PrefixLoss, shared_length
from agentrt.prompt.full_render import encode_full_render, escaped_tools
from agentrt.prompt.gguf_model_files import read_gguf_model_files
from agentrt.prompt.layout import Layout, find_layout
from agentrt.prompt.message_form_probe import find_message_form
from agentrt.prompt.model_files import ModelFiles, read_model_files
from agentrt.prompt.prefix import Prefix
from agentrt.prompt.prefix_cache import PrefixCache
from agentrt.prompt.probe import TemplateProbe
from agentrt.prompt.template import TemplateRefused
from agentrt.prompt.template_set import TemplateSet
from agentrt.prompt.text_encoder import TextPosition
from agentrt.prompt.think_probe import find_think_frame
from agentrt.prompt.tokenizer_parts import Marker, TokenizerParts
from agentrt.prompt.tool_view import ToolView, ToolViews
from agentrt.prompt.tools_layout import layout_with
from agentrt.prompt.turns import turns_of

MAX_FULL_RENDERS = 8
"""Number of prompts that are kept of those that the layout of the template does not fit."""

_MALFORMED = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Errors of reading a file with values of unexpected types."""


class Codec:
    """Encoder and decoder of one model's chats.

    Attributes:
        path: The model's directory, or its GGUF file.
        fingerprint: Hash; generated ids are valid for all codecs with the same fingerprint.
        vocab: Token ids and their bytes.
        call_frame: Frame of this model's tool calls.
        think_frame: Frame of its reasoning before an answer.
        parts: The analyzed tokenizer.
        tool_views: State for each set of tools.
        window_tokens: Context length; 0 if unknown from its files.
        most_text_bytes: Most bytes of text that become one token; 0 without a limit.
        notes: Features that its chat template lacks, and their replacements.
    """

    def __init__(self, files: ModelFiles) -> None:
        """Analyze a model's files; use `Codec.load`.

        Raises:
            ModelInvalid: The files cannot be analyzed.
        """
        self.path = files.path
        self.parts = TokenizerParts(files)
        self._templates = TemplateSet(files)
        self.window_tokens = files.window_tokens
        self.most_text_bytes = self.parts.most_text_bytes
        self._form, notes = find_message_form(self._templates.render, self.parts, str(files.path))
        if not files.templates:
            notes.insert(0, "there is no chat template: messages are written as `Role: text`")
        if not self.parts.texts.seals:
            notes.append("text is held back until a marker ends it: its pieces have no fixed ends")
        if self._templates.reads_clock:
            notes.append("the template writes the date: it stays that of loading")
        self.call_frame: CallFrame = self._form.frame
        self.think_frame: ThinkFrame = find_think_frame(
            self._templates.render, self.parts, self._templates.source
        )
        self.tool_views = ToolViews(self._new_view)
        mark = self.parts.vocab.fingerprint + self._templates.source
        self.fingerprint = hashlib.sha256(mark.encode()).hexdigest()[:32]
        layout = self.tool_views.for_tools(()).layout
        self.vocab: Vocab = self.parts.with_eos(self._ending(layout))
        self.notes: tuple[str, ...] = tuple(notes)
        self._full: OrderedDict[tuple[object, ...], tuple[ToolView, Encoded]] = OrderedDict()
        self._full_lock = threading.Lock()
        self._texts = {keep: _texts(self.vocab, self.parts, keep) for keep in (False, True)}

    @classmethod
    def load(cls, path: Path) -> Codec:
        """Read the codec of the model in the directory or GGUF file `path`.

        Raises:
            ModelInvalid: A file is missing or malformed, or its template takes too much to render.
        """
        try:
            read = read_gguf_model_files if is_gguf(path) else read_model_files
            with gc_pause():
                return cls(read(path))
        except RequestRejected as error:  # of the probes, which are the shortest of chats
            raise ModelInvalid(error.message, hint=error.hint) from error
        except _MALFORMED as error:
            raise ModelInvalid(
                f"the tokenizer or the template of {path} cannot be read: "
                f"{type(error).__name__}: {str(error)[:200]}",
                hint="Copy the model again",
            ) from error

    def encode(
        self,
        tools: tuple[ToolSchema, ...],
        segments: Sequence[Segment],
        history: History = "template",
        cache_salt: str = "",
    ) -> Encoded:
        """The ids of a prompt, up to its first hole.

        Args:
            tools: Tools offered to the model; the same for all of a chat, or its prefix is lost.
            segments: Whole messages; an open last message is continued by the model.
            history: Form of earlier answers of this model.
            cache_salt: Prompts are cached for their salt alone, so that the time of encoding
                reveals nothing about prompts of other salts.

        Raises:
            Unsupported: The chat template refuses these messages.
            RequestRejected: The template exceeds its limits of work or memory.
        """
        if len(segments) == 1 and isinstance(whole := segments[0], PromptIds):
            return Encoded(whole.token_ids)
        view = self.tool_views.for_tools(tools)
        prefix = view.prefixes.root(history, cache_salt)
        for index, segment in enumerate(segments):
            if isinstance(segment, Hole):
                with suppress(LayoutMismatch):
                    for text in segment.begun:
                        prefix = view.prefixes.extend(prefix, Text(text))
                return self._encode_up_to(view, prefix, segment)
            try:
                prefix = view.prefixes.extend(prefix, segment)
            except LayoutMismatch:
                if any(isinstance(later, Hole) for later in segments[index:]):
                    return self._encode_up_to(view, prefix, segment)
                return self._encode_full_once(view, segments, prefix, cache_salt)
        try:
            answer = view.composer.generation_prompt(prefix)
        except LayoutMismatch:
            return self._encode_full_once(view, segments, prefix, cache_salt)
        ids = (*view.prefixes.token_ids(prefix), *answer)
        losses = prefix.losses
        if prefix.rewritten:
            losses = (*losses, *self._rewritten(view, segments, ids, history))
        return Encoded(ids, True, losses)

    def encode_ahead(
        self,
        tools: tuple[ToolSchema, ...],
        segments: Sequence[Segment],
        history: History = "template",
        cache_salt: str = "",
    ) -> None:
        """Fill the cache for `encode` of the same prompt; may run in another thread."""
        view = self.tool_views.for_tools(tools)
        prefix = view.prefixes.root(history, cache_salt)
        try:
            for segment in segments:
                if isinstance(segment, Hole):
                    return
                prefix = view.prefixes.extend(prefix, segment)
            view.composer.generation_prompt(prefix)
        except LayoutMismatch:
            if not any(isinstance(one, Hole) for one in segments):
                with suppress(AgentrtError, TemplateRefused):  # `encode` raises it
                    self._encode_full_once(view, segments, prefix, cache_salt)

    def render(self, tools: tuple[ToolSchema, ...], segments: Sequence[Segment]) -> str:
        """The text of a prompt as the chat template writes it, holes as `[node]`.

        Raises:
            Unsupported: The chat template refuses these messages.
        """
        view = self.tool_views.for_tools(tools)
        turns = [message.turn for message in turns_of(segments)]
        try:
            return replace(view.probe, tools=tools).rendered(turns)
        except TemplateRefused as error:
            raise _unsupported(error) from error

    def sizes(
        self,
        tools: tuple[ToolSchema, ...],
        segments: Sequence[Segment],
        history: History = "template",
    ) -> tuple[int, ...]:
        """Tokens of each segment, its share of the template's text included; holes have 0."""
        view = self.tool_views.for_tools(tools)
        prefix = view.prefixes.root(history)
        sizes: list[int] = []
        settled = total = 0
        for segment in segments:
            if isinstance(segment, Hole):
                sizes.append(0)
                continue
            try:
                prefix = view.prefixes.extend(prefix, segment)
            except LayoutMismatch:
                return tuple(map(self._size, segments))
            settled += len(prefix.ids)
            pending = len(self.parts.texts.encode(prefix.pending, prefix.position))
            total, before = settled + pending, total
            sizes.append(total - before)
        return tuple(sizes)

    def count(self, text: str) -> int:
        """Number of tokens of a text by itself."""
        return self.parts.texts.count(text)

    def text_ids(self, text: str, *, special: bool = True) -> tuple[int, ...]:
        """The ids of a text that is no chat; nothing in it becomes a special token.

        Args:
            text: The text.
            special: Whether it gets the special tokens that the tokenizer puts around a text.
        """
        before, behind = self.parts.text_frame if special else ((), ())
        position = TextPosition.AFTER_MARKER if before else TextPosition.START
        return (*before, *self.parts.texts.encode(text, position), *behind)

    def detokenizer(self, keep_special: bool = False) -> Detokenizer:
        """A new incremental detokenizer; with `keep_special`, special tokens show as their text."""
        return Detokenizer(self._texts[keep_special])

    def bytes_of(self, token_id: int) -> bytes:
        """The bytes of one token, of a special one those of its text; b"" for an unused id."""
        texts = self._texts[True]
        return texts[token_id] if 0 <= token_id < len(texts) else b""

    def _size(self, segment: Segment) -> int:
        match segment:
            case Text(text):
                return self.count(text)
            case Generated():
                return len(segment.token_ids) or self.count(segment.text)
            case CallMade():
                return self.count(segment.arguments_json)
            case PromptIds(token_ids):
                return len(token_ids)
            case _:
                return 0

    def _encode_up_to(self, view: ToolView, prefix: Prefix, pending: Segment) -> Encoded:
        """The ids that are final before a hole, or before a segment that was one."""
        ids = view.prefixes.token_ids(prefix)
        with suppress(LayoutMismatch):
            filled_by_model = isinstance(pending, Hole) and pending.generated
            for_answer = filled_by_model or isinstance(pending, Generated)
            ids = (*ids, *view.composer.settled_ids(prefix, for_answer))
        return Encoded(ids, False, prefix.losses)

    def _encode_full_once(
        self, view: ToolView, segments: Sequence[Segment], prefix: Prefix, cache_salt: str
    ) -> Encoded:
        """`encode_full`, which the last few prompts need not go through again."""
        key = (*segments, prefix.appends, cache_salt)
        found = self._full.get(key)
        if found is not None and found[0] is view:
            return found[1]
        encoded = self.encode_full(view, segments, prefix)
        with self._full_lock:
            self._full[key] = (view, encoded)
            while len(self._full) > MAX_FULL_RENDERS:
                self._full.popitem(last=False)
        return encoded

    def encode_full(self, view: ToolView, segments: Sequence[Segment], prefix: Prefix) -> Encoded:
        """Encode from one rendering, keeping the ids up to the last answer that was appended."""
        history: History = "append" if prefix.appends else "template"
        messages = turns_of(segments)
        if messages and not messages[-1].closed:
            raise Unsupported("this chat template cannot continue an open message")
        try:
            ids, ends = encode_full_render(
                view, messages, self.fingerprint, self._templates.tested, history
            )
        except TemplateRefused as error:
            answers = [s.without_thinking() if isinstance(s, Generated) else s for s in segments]
            if answers != list(segments):  # it refuses reasoning in a content
                return self.encode(view.tools, answers, history)
            raise _unsupported(error) from error
        if prefix.appended:
            end = ends.get(prefix.appended - 1)
            if end is None:
                raise Unsupported(
                    "the chat template does not show where an answer that was appended ends",
                    hint='Use history="template" for this chat, or another model',
                )
            ids = [*view.prefixes.token_ids(prefix.until_appended()), *ids[end:]]
        return Encoded(tuple(ids), True, self._rewritten(view, segments, tuple(ids), history))

    def _rewritten(
        self, view: ToolView, segments: Sequence[Segment], ids: tuple[int, ...], history: History
    ) -> tuple[PrefixLoss, ...]:
        """Loss of the last answer and its prompt: their tokens that differ in `ids`."""
        opened, latest, made = -1, -1, None
        for index, segment in enumerate(segments):
            if isinstance(segment, Open):
                latest = index
            elif isinstance(segment, Generated) and segment.codec == self.fingerprint:
                opened, made = latest, segment
        if made is None:
            return ()
        try:
            prompt = self.encode(view.tools, segments[:opened], history)
        except Unsupported:
            return ()  # not a prompt of this model: no computation to share
        computed = (*prompt.token_ids, *made.token_ids)
        lost = len(computed) - shared_length(computed, ids)
        return (PrefixLoss(lost, "template_rewrite"),) if lost else ()

    def _new_view(self, tools: tuple[ToolSchema, ...]) -> ToolView:
        safe_tools = escaped_tools(self.parts, tools)
        probe = TemplateProbe(self._templates.render, self.parts, self._form, safe_tools)
        layout = None
        if tools:
            layout = layout_with(probe, self.tool_views.for_tools(()).layout)
        if layout is None:
            layout = find_layout(probe)
        tested = self._templates.tested
        composer = Composer(self.parts, self._form, layout, tested, self.fingerprint)
        return ToolView(tools, probe, layout, composer, PrefixCache(composer))

    def _ending(self, layout: Layout) -> tuple[int, ...]:
        """The marker that the template writes right after an answer."""
        text = layout.between.get(("assistant", "user"), "")
        pieces = self.parts.pieces(text.lstrip())
        return (pieces[0].token_id,) if pieces and isinstance(pieces[0], Marker) else ()


def _texts(vocab: Vocab, parts: TokenizerParts, keep_special: bool) -> tuple[bytes, ...]:
    texts = list(vocab.token_bytes)
    for marker in parts.markers.values():
        if keep_special or not marker.hidden:
            texts[marker.token_id] = marker.text.encode()
    return tuple(texts)


def _unsupported(error: TemplateRefused) -> Unsupported:
    return Unsupported(
        f"the model's chat template refuses these messages: {error}",
        hint="Order them as the model was trained: user and assistant in turn, results after calls",
    )
