"""Extension of prefixes by segments, as long as the chat template's layout holds."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import assert_never

from agentrt.base.segments import (
    CallFrame,
    CallMade,
    Close,
    Generated,
    Hole,
    Open,
    PromptIds,
    ResultOf,
    Segment,
    Text,
)
from agentrt.prompt.encoded import PrefixLoss
from agentrt.prompt.id_writer import ESCAPE, IdWriter
from agentrt.prompt.layout import Kind, Layout, filled, quoted
from agentrt.prompt.message_form import MessageForm
from agentrt.prompt.prefix import Prefix, PrefixMessage
from agentrt.prompt.tokenizer_parts import TokenizerParts

PLAIN = re.compile(r"[\w .,:;!?()-]*")
"""Text that is unchanged even by a template that escapes quotes."""


class LayoutMismatch(Exception):
    """The layout does not hold for this chat, which must be rendered as a whole."""


@dataclass(frozen=True, slots=True, eq=False)
class Composer:
    """Extends prefixes by segments, with one layout.

    Attributes:
        parts: Tokenizer of the model.
        form: Message form of the template.
        layout: Layout with the offered tools.
        tested: Pattern of texts that the template tests for in answers; it ignores data.
        codec: Fingerprint of this model's generated ids.
    """

    parts: TokenizerParts
    form: MessageForm
    layout: Layout
    tested: re.Pattern[str]
    codec: str

    def extend(self, prefix: Prefix, segment: Segment) -> Prefix:
        """`prefix` with one more segment.

        Raises:
            LayoutMismatch: The layout does not hold for this segment.
        """
        match segment:
            case Open(role):
                if prefix.message is not None:
                    raise LayoutMismatch("a message opens inside another")
                return replace(prefix, parent=prefix, ids=(), message=PrefixMessage(role))
            case ResultOf(call_id, name):
                call_id, name = (self.parts.escape(text, ESCAPE) for text in (call_id, name))
                message = replace(_open(prefix), call_id=call_id, name=name)
                return replace(prefix, parent=prefix, ids=(), message=message)
            case Text(text):
                return self._with_text(prefix, text)
            case Generated():
                return self._with_generated(prefix, segment)
            case CallMade():
                return self._with_call(prefix, segment)
            case Close():
                return self._closed(prefix)
            case Hole():
                raise LayoutMismatch("a hole has no ids")
            case PromptIds():
                raise LayoutMismatch("a whole prompt extends none")
            case _:
                assert_never(segment)

    def generation_prompt(self, prefix: Prefix) -> list[int]:
        """The ids of the generation prompt after `prefix`."""
        writer = self._writer(prefix)
        if prefix.message is None:
            writer.write_template(self._between(prefix, "answer", ("", "")))
        writer.write_pending()
        return writer.ids

    def settled_ids(self, prefix: Prefix, for_answer: bool) -> list[int]:
        """The ids after `prefix` that are final whatever follows: an answer of a model, or text."""
        message = _open(prefix)
        writer = self._writer(prefix)
        if message.role == "assistant" and message.opened_as is None:
            openings = {
                self.layout.between.get((prefix.before, kind))
                for kind in (("assistant", "calls", "answer") if for_answer else ("assistant",))
            }
            if len(openings) > 1 or None in openings:
                writer.seal()
                return writer.ids
        if message.opened_as is None and message.role in self.layout.omits and not for_answer:
            writer.seal()
            return writer.ids
        self._enter(writer, prefix, message.role)
        if for_answer:
            writer.write_pending()
        else:
            writer.seal()
        return writer.ids

    def _with_text(self, prefix: Prefix, text: str) -> Prefix:
        message = _open(prefix)
        if message.calls:
            raise LayoutMismatch("text after calls")
        edges = self._edges(message.role, text)
        if edges == "stripped" and not message.has_content:
            text = text.lstrip()
        if not text:
            return replace(prefix, parent=prefix, ids=())
        writer = self._writer(prefix)
        message = self._enter(writer, prefix, message.role)
        writer.write_text(quoted(text) if edges == "quoted" else text)
        return _next_prefix(prefix, writer, replace(message, has_content=True))

    def _with_generated(self, prefix: Prefix, made: Generated) -> Prefix:
        message = _open(prefix)
        is_own = made.codec == self.codec and bool(made.token_ids)
        if is_own and prefix.appends and message.opened_as is None:
            return self._with_appended(prefix, made)
        if self.tested.search(made.text):
            raise LayoutMismatch("the template may write this answer in another way")
        if made.text != made.text.strip() and self._edges("assistant", made.text) == "stripped":
            raise LayoutMismatch("whitespace around an answer")
        kind: Kind = "calls" if made.calls else "assistant"
        writer = self._writer(prefix)
        message = self._enter(writer, prefix, kind)
        message = replace(message, has_content=True, generated_calls=bool(made.calls))
        if is_own:
            writer.write_ids(made.token_ids)
            opened = self.layout.between.get((prefix.before, kind))
            prompt_text = self.layout.between.get((prefix.before, "answer"))
            changed = replace(_next_prefix(prefix, writer, message), losses=())
            return replace(changed, rewritten=opened != prompt_text)
        writer.write_pending()
        start = len(writer.ids)
        self._foreign(writer, made)
        writer.write_pending()
        loss = PrefixLoss(len(writer.ids) - start, "other_model")
        changed = _next_prefix(prefix, writer, message)
        return replace(
            changed, losses=(*prefix.losses, loss) if loss.lost_tokens else prefix.losses
        )

    def _with_appended(self, prefix: Prefix, made: Generated) -> Prefix:
        """An answer exactly as prompted and generated, independent of the template."""
        message = _open(prefix)
        writer = self._writer(prefix)
        writer.write_template(self._between(prefix, "answer", ("", "")))
        writer.write_ids(made.token_ids)
        kind: Kind = "calls" if made.calls else "assistant"
        calls = bool(made.calls)
        message = replace(message, opened_as=kind, has_content=True, generated_calls=calls)
        changed = _next_prefix(prefix, writer, message)
        return replace(changed, losses=(), rewritten=False, appended=prefix.appended + 1)

    def _foreign(self, writer: IdWriter, made: Generated) -> None:
        """Write the output of another model in this model's form."""
        if not made.calls:
            writer.write_text(made.text)
            return
        writer.write_text(made.content)
        if made.content:
            writer.write_template(self._joiner())
        for index, call in enumerate(made.calls):
            self._call(writer, call, index)
        writer.write_template(self.form.frame.last)

    def _with_call(self, prefix: Prefix, call: CallMade) -> Prefix:
        writer = self._writer(prefix)
        message = self._enter(writer, prefix, "calls")
        if message.opened_as is not None and message.opened_as != "calls":
            same = self.layout.between.get((prefix.before, "calls"))
            if same != self.layout.between.get((prefix.before, message.opened_as)):
                raise LayoutMismatch("calls open a message otherwise than text")
        if message.has_content and not message.calls:
            writer.write_template(self._joiner())
        self._call(writer, call, message.calls)
        return _next_prefix(prefix, writer, replace(message, calls=message.calls + 1))

    def _call(self, writer: IdWriter, call: CallMade, index: int) -> None:
        frame: CallFrame = self.form.frame
        writer.write_template((frame.between if index else frame.first) + frame.before)
        writer.write_text(call.name)
        writer.write_template(frame.middle)
        if frame.argument is None:
            writer.write_text(frame.arguments_text(call.arguments_json))
        else:
            for key, value in json.loads(call.arguments_json).items():
                middle, text = frame.argument.text_of(value)
                writer.write_template(frame.argument.before)
                writer.write_text(key)
                writer.write_template(middle)
                writer.write_text(text)
                writer.write_template(frame.argument.after)
        writer.write_template(frame.after)

    def _closed(self, prefix: Prefix) -> Prefix:
        message = _open(prefix)
        if message.opened_as is None and message.role in self.layout.omits:
            raise LayoutMismatch(f"the template does not write an empty {message.role} message")
        writer = self._writer(prefix)
        message = self._enter(writer, prefix, message.role)
        if message.calls:
            writer.write_template(self.form.frame.last)
        elif message.has_content and self._edges(message.role, writer.pending) == "stripped":
            writer.pending = writer.pending.rstrip()
        kind: Kind = "calls" if message.calls or message.generated_calls else message.role
        after = _next_prefix(prefix, writer, None)
        return replace(after, before=kind, closed=(message.name, message.call_id))

    def _enter(self, writer: IdWriter, prefix: Prefix, kind: Kind) -> PrefixMessage:
        """The open message, opened as `kind` unless its opening is written already."""
        message = _open(prefix)
        if message.opened_as is not None:
            return message
        writer.write_template(self._between(prefix, kind, (message.name, message.call_id)))
        return replace(message, opened_as=kind)

    def _between(self, prefix: Prefix, kind: Kind, following: tuple[str, str]) -> str:
        text = self.layout.between.get((prefix.before, kind))
        if text is None:
            raise LayoutMismatch(f"what stands between {prefix.before} and {kind} is not known")
        return filled(text, prefix.closed, following)

    def _joiner(self) -> str:
        if self.layout.joiner is None:
            raise LayoutMismatch("what stands between text and calls is not known")
        return self.layout.joiner

    def _edges(self, kind: Kind, text: str) -> str:
        edges = self.layout.edges.get(kind, "odd")
        if edges == "odd" and text != text.strip():
            raise LayoutMismatch(f"whitespace around the content of {kind}")
        if edges == "rewritten" and not PLAIN.fullmatch(text):
            raise LayoutMismatch(f"the template rewrites the content of {kind}")
        return edges

    def _writer(self, prefix: Prefix) -> IdWriter:
        return IdWriter(self.parts, prefix.pending, prefix.position, prefix.strips_next)


def _open(prefix: Prefix) -> PrefixMessage:
    if prefix.message is None:
        raise LayoutMismatch("content outside a message")
    return prefix.message


def _next_prefix(prefix: Prefix, writer: IdWriter, message: PrefixMessage | None) -> Prefix:
    return replace(
        prefix,
        parent=prefix,
        ids=tuple(writer.ids),
        pending=writer.pending,
        position=writer.position,
        strips_next=writer.strips_next,
        message=message,
    )
