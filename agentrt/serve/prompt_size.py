"""Refusal of requests by their size: of bodies before they are read, of prompts before encoding."""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.base.errors import ContextOverflow
from agentrt.base.record import record
from agentrt.serve.refusal import RequestRefused
from agentrt.serve.request_schema import ChatMessage

MOST_BODY_BYTES = 8 << 20

ESCAPED_BYTES = 6
"""Most bytes of JSON for one of text: an A may be written as `\\u0041`."""

OTHER_BYTES = 2 << 20
"""Bytes of a body beside the text of its prompt: tools and a schema, which have limits of their
own, 1.5 MB together, the layout of the JSON, and what templates drop."""

_THOUGHT_ENDS = "</think>"


@record
class BodyLimit:
    """The longest body that is read.

    Attributes:
        most_bytes: Length of the body.
        why: Derivation of the length, and a way to shorten a body.
    """

    most_bytes: int
    why: str

    def check(self, size_bytes: int) -> None:
        """Refuse a body that is longer.

        Raises:
            RequestRefused: The body is longer.
        """
        if size_bytes > self.most_bytes:
            why = f"the body is longer than {self.most_bytes} bytes: {self.why}"
            raise RequestRefused(413, why)


def body_limit(window_tokens: int, most_token_bytes: int) -> BodyLimit:
    """The longest body with a prompt that can fit the window, and at most `MOST_BODY_BYTES`.

    Args:
        window_tokens: Context length; 0 if unknown.
        most_token_bytes: Most bytes of text of a token; 0 without a limit.
    """
    text_bytes = window_tokens * most_token_bytes
    most_bytes = text_bytes * ESCAPED_BYTES + OTHER_BYTES
    if not text_bytes or most_bytes > MOST_BODY_BYTES:
        return BodyLimit(MOST_BODY_BYTES, "no server of this kind takes more. Shorten the messages")
    return BodyLimit(
        most_bytes,
        f"{window_tokens} tokens, the window, of at most {most_token_bytes} bytes hold {text_bytes}"
        f" bytes of text, which JSON writes in at most {text_bytes * ESCAPED_BYTES}, and"
        f" {OTHER_BYTES} may be tools, a schema and layout. Shorten the messages, or leave out the"
        " reasoning of earlier answers",
    )


def text_bytes(messages: Sequence[ChatMessage]) -> int:
    """Bytes of UTF-8 of the texts of messages, as far as each template writes all of them.

    Templates drop whitespace at the ends of a text, and reasoning in earlier answers.
    """
    return sum(map(_message_bytes, messages))


def _message_bytes(message: ChatMessage) -> int:
    text = message.text
    if message.role == "assistant" and _THOUGHT_ENDS in text:
        return 0
    return utf8_bytes(text.strip())


def utf8_bytes(text: str) -> int:
    """Bytes of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def check_prompt_size(size_bytes: int, window_tokens: int, most_token_bytes: int) -> None:
    """Refuse a prompt that has more bytes than the window's tokens can hold.

    Args:
        size_bytes: Bytes of the texts.
        window_tokens: Context length; 0 if unknown.
        most_token_bytes: Most bytes of text of a token; 0 without a limit.

    Raises:
        ContextOverflow: Even the longest tokens do not bring the prompt into the window.
    """
    holds_bytes = window_tokens * most_token_bytes
    if holds_bytes and size_bytes > holds_bytes:
        raise ContextOverflow(
            f"the prompt has {size_bytes} bytes, and the window of {window_tokens} tokens holds "
            f"at most {holds_bytes}",
            hint="Shorten the prompt",
        )


def check_prompt_tokens(prompt_tokens: int, window_tokens: int) -> None:
    """Refuse a prompt that leaves no room in the window for an answer.

    Args:
        prompt_tokens: Length of the prompt.
        window_tokens: Context length; 0 if unknown.

    Raises:
        ContextOverflow: The prompt fills the window.
    """
    if window_tokens and prompt_tokens >= window_tokens:
        raise ContextOverflow(
            f"the prompt has {prompt_tokens} tokens, and the window has {window_tokens}",
            hint="Shorten the prompt",
        )
