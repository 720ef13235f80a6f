"""Refusal of prompts by their size, before the template and the tokenizer see them."""

from __future__ import annotations

from functools import lru_cache

from agentrt.base.errors import ContextOverflow
from agentrt.base.vocabulary import Vocab
from agentrt.serve.request_schema import ChatMessage, ChatRequest

_THOUGHT_ENDS = "</think>"


def text_bytes(question: ChatRequest) -> int:
    """Bytes of UTF-8 of a request's texts, as far as each template writes all of them.

    Templates drop whitespace at the ends of a text, and reasoning in earlier answers.
    """
    return sum(map(_message_bytes, question.messages))


def _message_bytes(message: ChatMessage) -> int:
    text = message.text
    if message.role == "assistant" and _THOUGHT_ENDS in text:
        return 0
    text = text.strip()
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def check_prompt_size(size_bytes: int, window_tokens: int, vocab: Vocab) -> None:
    """Refuse a prompt that has more bytes than the window's tokens can hold.

    Raises:
        ContextOverflow: Even the longest tokens do not bring the prompt into the window.
    """
    longest = longest_token_bytes(vocab)
    if window_tokens and size_bytes > window_tokens * longest:
        raise ContextOverflow(
            f"the prompt has {size_bytes} bytes, and the window of {window_tokens} tokens holds "
            f"at most {window_tokens * longest}",
            hint="Shorten the prompt",
        )


@lru_cache(maxsize=8)
def longest_token_bytes(vocab: Vocab) -> int:
    """Bytes of the longest token of text."""
    return max(map(len, vocab.token_bytes), default=1)
