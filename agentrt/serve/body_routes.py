"""From the body of a request to its generation, by the route that it came to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from agentrt.base.errors import Unsupported
from agentrt.program import Chat, GenOptions
from agentrt.program.output import raw_text
from agentrt.serve.prompt_size import check_prompt_size, text_bytes, utf8_bytes
from agentrt.serve.refusal import RequestRefused
from agentrt.serve.request_builder import (
    CompletionRequest,
    chat_of,
    completion_request,
    prompt_chat,
    text_completion_request,
)
from agentrt.serve.request_schema import ChatRequest, check_model, parsed
from agentrt.serve.request_terms import RequestTerms
from agentrt.serve.text_schema import TextRequest, TokenizeRequest

if TYPE_CHECKING:
    from agentrt.prompt import Codec

BodyRoute = Literal["chat", "text", "tokenize"]
BodyRequest = ChatRequest | TextRequest | TokenizeRequest

_KINDS: dict[BodyRoute, type[BodyRequest]] = {
    "chat": ChatRequest,
    "text": TextRequest,
    "tokenize": TokenizeRequest,
}
DEFAULT_TOKENS = 4096
"""Limit of an output where neither the body nor the window gives one."""


def body_request(route: BodyRoute, body: bytes) -> BodyRequest:
    """The request in a body.

    Raises:
        RequestRefused: The body is not JSON, or a field is not what it should be.
    """
    return parsed(_KINDS[route], body)


def generation_of(
    question: BodyRequest, names: Sequence[str], codec: Codec | None, window_tokens: int
) -> CompletionRequest:
    """The generation that a request stands for; of one to be tokenized, only its prompt counts.

    Args:
        question: The request.
        names: Names of the model that is served and of its adapters, the model first.
        codec: Codec of the model; None for an engine that takes messages.
        window_tokens: Context length; 0 if unknown.

    Raises:
        RequestRefused: The request is for another model, or its fields contradict each other.
        AgentrtError: The prompt does not fit, or the grammar of the answer is not supported.
    """
    if question.model is not None:
        check_model(question.model, names)
    request = _generation(question, codec, window_tokens)
    if question.model in (None, names[0]):
        return request
    # The runtime knows an adapter by its name, as it knows a role.
    options: GenOptions = {**request.options, "model": question.model}
    return replace(request, options=options)


def _generation(
    question: BodyRequest, codec: Codec | None, window_tokens: int
) -> CompletionRequest:
    if codec is not None:
        check_prompt_size(_prompt_bytes(question), window_tokens, codec.most_text_bytes)
    if isinstance(question, ChatRequest):
        return completion_request(question, window_tokens or DEFAULT_TOKENS)
    if codec is None:
        raise Unsupported(
            "the engine of this server takes messages, not token ids",
            hint="Use /v1/chat/completions",
        )
    if isinstance(question, TextRequest):
        return text_completion_request(question, codec, window_tokens)
    output = raw_text("tokenize", None, keep_special=False)
    return CompletionRequest(_tokenized_chat(question, codec), output, {}, "none", RequestTerms())


def _tokenized_chat(question: TokenizeRequest, codec: Codec) -> Chat:
    if (question.prompt is None) == (question.messages is None):
        raise RequestRefused(400, "prompt: give either a prompt or messages", param="prompt")
    if question.messages is not None:
        return chat_of(question.messages, question.tools or ())
    return prompt_chat(question.prompt or "", codec, special=question.add_special_tokens)


def _prompt_bytes(question: BodyRequest) -> int:
    """Bytes of the texts that are going to be tokenized."""
    if isinstance(question, ChatRequest):
        return text_bytes(question.messages)
    if isinstance(question, TokenizeRequest):
        return text_bytes(question.messages or ()) + utf8_bytes(question.prompt or "")
    prompt = question.only_prompt
    return utf8_bytes(prompt) if isinstance(prompt, str) else 0
