"""Tokenizing and detokenizing for clients, with the codec of the model that is served."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from agentrt.prompt import Codec
from agentrt.serve.request_body import HeldBody
from agentrt.serve.request_builder import check_ids
from agentrt.serve.request_schema import check_model, parsed
from agentrt.serve.served_model import ServedModel, TenantOf
from agentrt.serve.text_schema import DetokenizeRequest


async def tokenized(model: ServedModel, body: HeldBody, tenant_of: TenantOf) -> bytes:
    """The ids of a text, or of a chat with its generation prompt.

    Raises:
        RequestRefused: The body is not what it should be, or the engine takes messages.
    """
    request = await model.read("tokenize", body, tenant_of)
    ids = model.prompt_ids(request, tenant_of(None))
    found = {"count": len(ids), "max_model_len": model.window_tokens, "tokens": ids}
    return json.dumps(found, separators=(",", ":")).encode()


async def detokenized(model: ServedModel, body: HeldBody) -> bytes:
    """The text of ids, special tokens left out.

    Raises:
        RequestRefused: The body is not what it should be, or an id is none of the vocabulary.
    """
    return await model.in_worker(partial(_text_of, model.names, model.codec(), body))


def _text_of(names: Sequence[str], codec: Codec, body: HeldBody) -> bytes:
    question = parsed(DetokenizeRequest, body.content)
    if question.model is not None:
        check_model(question.model, names)
    check_ids(question.tokens, codec, "tokens")
    texts = codec.detokenizer()
    text = texts.feed_ids(question.tokens) + texts.flush()
    return json.dumps({"prompt": text}).encode()
