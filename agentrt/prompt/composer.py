"""How segments extend prefixes, as long as the layout of the template holds."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import assert_never

from agentrt.base.segments import (
    CallFrame,
    CallMade,
    Close,
    Generated,
    Hole,
    Open,
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
"""What even a template that escapes quotes leaves as it is."""


class Irregular(Exception):
    """The layout does not hold for this chat: it has to be rendered whole."""


class Composer:
    """Extends prefixes by segments, under one layout."""

    def __init__(
        self,
        lexicon: TokenizerParts,
        dialect: MessageForm,
        layout: Layout,
        telling: re.Pattern[str],
        codec: str,
    ) -> None:
        """Take what is known of a template.

        Args:
            lexicon: Of the model.
            dialect: Of its template.
            layout: For the tools offered.
            telling: Finds answers that the template may write in another way; data never is.
            codec: Fingerprint under which generated ids are our own.
        """
        self._lexicon = lexicon
        self._dialect = dialect
        self._layout = layout
        self._telling = telling
        self._codec = codec

    def extended(self, prefix: Prefix, segment: Segment) -> Prefix:
        """`prefix` and one more segment.

        Raises:
            Irregular: The layout does not hold for it.
        """
        match segment:
            case Open(role):
                if prefix.message is not None:
                    raise Irregular("a message opens inside another")
                return replace(prefix, parent=prefix, ids=(), message=PrefixMessage(role))
            case ResultOf(call_id, name):
                call_id, name = (self._lexicon.escape(text, ESCAPE) for text in (call_id, name))
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
                raise Irregular("a hole has no ids")
            case _:
                assert_never(segment)

    def answered(self, prefix: Prefix) -> list[int]:
        """The ids that follow `prefix` up to where the model goes on."""
        pen = self._pen(prefix)
        if prefix.message is None:
            pen.literal(self._between(prefix, "answer", ("", "")))
        pen.end()
        return pen.ids

    def sealed(self, prefix: Prefix, for_answer: bool) -> list[int]:
        """The ids that follow `prefix` whatever comes next: an answer of a model, or text."""
        message = _open(prefix)
        pen = self._pen(prefix)
        if message.role == "assistant" and message.entered is None:
            openings = {
                self._layout.between.get((prefix.before, kind))
                for kind in (("assistant", "calls", "answer") if for_answer else ("assistant",))
            }
            if len(openings) > 1 or None in openings:
                pen.seal()
                return pen.ids
        if message.entered is None:
            if message.role in self._layout.omits and not for_answer:
                pen.seal()
                return pen.ids
            self._enter(pen, prefix, message.role)
        if for_answer:
            pen.end()
        else:
            pen.seal()
        return pen.ids

    def _with_text(self, prefix: Prefix, text: str) -> Prefix:
        message = _open(prefix)
        if message.calls:
            raise Irregular("text after calls")
        edges = self._edges(message.role, text)
        if edges == "stripped" and not message.said:
            text = text.lstrip()
        if not text:
            return replace(prefix, parent=prefix, ids=())
        pen = self._pen(prefix)
        if message.entered is None:
            message = self._enter(pen, prefix, message.role)
        pen.text(quoted(text) if edges == "quoted" else text)
        return _written(prefix, pen, replace(message, said=True))

    def _with_generated(self, prefix: Prefix, made: Generated) -> Prefix:
        message = _open(prefix)
        own = made.codec == self._codec and bool(made.token_ids)
        if own and prefix.appends and message.entered is None:
            return self._with_appended(prefix, made)
        if self._telling.search(made.text):
            raise Irregular("the template may write this answer in another way")
        if made.text != made.text.strip() and self._edges("assistant", made.text) == "stripped":
            raise Irregular("whitespace around an answer")
        kind: Kind = "calls" if made.calls else "assistant"
        pen = self._pen(prefix)
        if message.entered is None:
            message = self._enter(pen, prefix, kind)
        message = replace(message, said=True, generated_calls=bool(made.calls))
        if own:
            pen.generated(made.token_ids)
            opened = self._layout.between.get((prefix.before, kind))
            asked = self._layout.between.get((prefix.before, "answer"))
            changed = replace(_written(prefix, pen, message), losses=())
            return replace(changed, rewritten=opened != asked)
        pen.end()
        start = len(pen.ids)
        self._foreign(pen, made)
        pen.end()
        loss = PrefixLoss(len(pen.ids) - start, "other_model")
        changed = _written(prefix, pen, message)
        return replace(
            changed, losses=(*prefix.losses, loss) if loss.lost_tokens else prefix.losses
        )

    def _with_appended(self, prefix: Prefix, made: Generated) -> Prefix:
        """An answer just as it was asked for and made: the template is not asked."""
        message = _open(prefix)
        pen = self._pen(prefix)
        pen.literal(self._between(prefix, "answer", ("", "")))
        pen.generated(made.token_ids)
        kind: Kind = "calls" if made.calls else "assistant"
        message = replace(message, entered=kind, said=True, generated_calls=bool(made.calls))
        changed = _written(prefix, pen, message)
        return replace(changed, losses=(), rewritten=False, appended=prefix.appended + 1)

    def _foreign(self, pen: IdWriter, made: Generated) -> None:
        """What another model wrote, in this one's words."""
        if not made.calls:
            pen.text(made.text)
            return
        pen.text(made.content)
        if made.content:
            pen.literal(self._joiner())
        for index, call in enumerate(made.calls):
            self._call(pen, call, index)
        pen.literal(self._dialect.frame.last)

    def _with_call(self, prefix: Prefix, call: CallMade) -> Prefix:
        message = _open(prefix)
        pen = self._pen(prefix)
        if message.entered is None:
            message = self._enter(pen, prefix, "calls")
        elif message.entered != "calls":
            same = self._layout.between.get((prefix.before, "calls"))
            if same != self._layout.between.get((prefix.before, message.entered)):
                raise Irregular("calls open a message otherwise than text")
        if message.said and not message.calls:
            pen.literal(self._joiner())
        self._call(pen, call, message.calls)
        return _written(prefix, pen, replace(message, calls=message.calls + 1))

    def _call(self, pen: IdWriter, call: CallMade, index: int) -> None:
        frame: CallFrame = self._dialect.frame
        pen.literal((frame.between if index else frame.first) + frame.before)
        pen.text(call.name)
        pen.literal(frame.middle)
        pen.text(call.arguments_json)
        pen.literal(frame.after)

    def _closed(self, prefix: Prefix) -> Prefix:
        message = _open(prefix)
        if message.entered is None and message.role in self._layout.omits:
            raise Irregular(f"the template does not write an empty {message.role} message")
        pen = self._pen(prefix)
        if message.entered is None:
            message = self._enter(pen, prefix, message.role)
        if message.calls:
            pen.literal(self._dialect.frame.last)
        elif message.said and self._edges(message.role, pen.held) == "stripped":
            pen.held = pen.held.rstrip()
        kind: Kind = "calls" if message.calls or message.generated_calls else message.role
        after = _written(prefix, pen, None)
        return replace(after, before=kind, closed=(message.name, message.call_id))

    def _enter(self, pen: IdWriter, prefix: Prefix, kind: Kind) -> PrefixMessage:
        message = _open(prefix)
        pen.literal(self._between(prefix, kind, (message.name, message.call_id)))
        return replace(message, entered=kind)

    def _between(self, prefix: Prefix, kind: Kind, following: tuple[str, str]) -> str:
        text = self._layout.between.get((prefix.before, kind))
        if text is None:
            raise Irregular(f"what stands between {prefix.before} and {kind} is not known")
        return filled(text, prefix.closed, following)

    def _joiner(self) -> str:
        if self._layout.joiner is None:
            raise Irregular("what stands between text and calls is not known")
        return self._layout.joiner

    def _edges(self, kind: Kind, text: str) -> str:
        edges = self._layout.edges.get(kind, "odd")
        if edges == "odd" and text != text.strip():
            raise Irregular(f"whitespace around the content of {kind}")
        if edges == "rewritten" and not PLAIN.fullmatch(text):
            raise Irregular(f"the template rewrites the content of {kind}")
        return edges

    def _pen(self, prefix: Prefix) -> IdWriter:
        return IdWriter(self._lexicon, prefix.held, prefix.place, prefix.eats)


def _open(prefix: Prefix) -> PrefixMessage:
    if prefix.message is None:
        raise Irregular("content outside a message")
    return prefix.message


def _written(prefix: Prefix, pen: IdWriter, message: PrefixMessage | None) -> Prefix:
    return replace(
        prefix,
        parent=prefix,
        ids=tuple(pen.ids),
        held=pen.held,
        place=pen.place,
        eats=pen.eats,
        message=message,
    )
