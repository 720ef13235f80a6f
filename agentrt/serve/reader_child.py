"""The process that reads bodies: JSON, schema, template and tokenizer, all under limits.

Run as `python -m agentrt.serve.reader_child`: orders come on standard input, answers go to standard
output. Time and memory are limited by the kernel, since a tokenizer cannot be interrupted.
"""

from __future__ import annotations

import ctypes
import json
import os
from array import array
from contextlib import suppress
from typing import BinaryIO

from agentrt.base.errors import AgentrtError
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.prompt import Codec
from agentrt.protocol.child_limits import claim_answers, limit_cpu, limit_memory, payloads
from agentrt.serve import reader_wire as wire
from agentrt.serve.body_routes import body_request, generation_of
from agentrt.serve.prompt_size import check_prompt_tokens
from agentrt.serve.refusal import RequestRefused, refusal_of

MORE_BYTES = 1 << 30
_TRIMMED_BYTES = 256 * 1024
"""Length of a body after which the memory that it took is given back."""


def main() -> None:
    """Serve until the end of standard input."""
    answers = claim_answers()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    model: wire.ReaderModel | None = None
    codec: Codec | None = None
    for payload in payloads():
        order = wire.ORDERS.value(payload)
        if isinstance(order, wire.ReaderModel):
            model, codec = order, Codec.load(order.path)
            limit_memory(MORE_BYTES)
            _send(answers, wire.ReaderReady(codec.fingerprint))
        elif model is not None and codec is not None:
            limit_cpu(model.cpu_s)
            answer = _answer(order, model, codec)
            limit_cpu(0.0)
            _send(answers, answer)
            if len(order.body) > _TRIMMED_BYTES:
                del order, payload, answer
                _give_back_memory()


def _answer(order: wire.ReadBody, model: wire.ReaderModel, codec: Codec) -> wire.Answer:
    try:
        return _read(order, model, codec)
    except RequestRefused as refused:
        return wire.BodyRefused(refused.status, refused.message, refused.param, refused.code)
    except AgentrtError as error:
        known = refusal_of(error)
        if known.status >= 500:
            return wire.ReadingBroke(f"{type(error).__name__}: {error}")
        return wire.BodyRefused(known.status, known.message, known.param, known.code)
    except MemoryError:
        return wire.BodyRefused(400, "the request takes too much memory to read", "", "")
    except Exception as error:
        return wire.ReadingBroke(f"{type(error).__name__}: {error}")


def _read(order: wire.ReadBody, model: wire.ReaderModel, codec: Codec) -> wire.BodyRead:
    """Read a body.

    Raises:
        RequestRefused: The body is no request, or not of this model.
        AgentrtError: The prompt does not fit, or the constraint is not supported.
    """
    question = body_request(order.route, order.body)
    request = generation_of(question, model.names, codec, model.window_tokens)
    chat, terms = request.chat, request.terms
    salt = order.cache_salt + terms.cache_salt
    encoded = codec.encode(chat.tools, prompt_segments(chat), chat.history, salt)
    if order.route != "tokenize":
        check_prompt_tokens(len(encoded.token_ids), model.window_tokens)
    return wire.BodyRead(
        array("I", encoded.token_ids).tobytes(),
        request.output.constraint,
        request.calls_in,
        json.dumps(request.options),
        terms,
    )


def _give_back_memory() -> None:
    with suppress(OSError, AttributeError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)


def _send(answers: BinaryIO, answer: wire.Answer) -> None:
    answers.write(wire.ANSWERS.frame(answer))
    answers.flush()


if __name__ == "__main__":
    main()
