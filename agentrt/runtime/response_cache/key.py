"""Keys of the response cache: a hash of all that an answer depends on."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

from agentrt.base.record import record
from agentrt.base.sampling_params import SamplingParams
from agentrt.protocol.backend import GenerateRequest
from agentrt.protocol.wire import Wire
from agentrt.runtime.in_flight.coalescing import content_of

FORMAT = 1
"""Release of keys and values; another one finds nothing of this."""

KEY_BYTES = 32


@record
class KeyedRequest:
    """All that an answer depends on.

    Attributes:
        format: Release of keys and values.
        engine: Identity of the engine: its address or its files, and its settings.
        model: Name of the model that it serves.
        codec: Fingerprint of tokenizer and chat template; "" if the engine applies its own.
        tenant: Tenant of the run: no tenant gets an answer of another one.
        request: The request without its node and its urgency.
    """

    format: int
    engine: str
    model: str
    codec: str
    tenant: str
    request: GenerateRequest


_WIRE: Wire[KeyedRequest] = Wire(KeyedRequest)


def response_key(
    request: GenerateRequest, *, engine: str, model: str, codec: str, tenant: str
) -> str:
    """The key of a request with a complete prompt, as hexadecimal digits.

    The hash is that of a msgpack array of class names and fields. Each text has its length before
    it, so that no two requests have the same bytes.

    Args:
        request: The request.
        engine: Identity of the engine.
        model: Name of the model that it serves.
        codec: Fingerprint of its codec, or "".
        tenant: Tenant of the run.
    """
    content = content_of(request)
    content = replace(content, gives_back=False, sampling=_with_floats(content.sampling))
    keyed = KeyedRequest(FORMAT, engine, model, codec, tenant, content)
    return blake2b(_WIRE.frame(keyed), digest_size=KEY_BYTES).hexdigest()


def _with_floats(given: SamplingParams) -> SamplingParams:
    """The same parameters: a program may give 0 for 0.0, and msgpack tells the two apart."""
    return replace(
        given,
        temperature=float(given.temperature),
        top_p=float(given.top_p),
        min_p=float(given.min_p),
        presence_penalty=float(given.presence_penalty),
        frequency_penalty=float(given.frequency_penalty),
        repetition_penalty=float(given.repetition_penalty),
    )
