"""Sampling parameters by the names of a server's fields."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from agentrt.base.errors import Unsupported
from agentrt.base.sampling_params import SamplingParams
from agentrt.remote.logprob_fields import logprob_fields
from agentrt.remote.remote_server import RemoteServer

Json = dict[str, Any]

SEED_LIMIT = 1 << 31  # llama.cpp and some others take 32 bits
_DEFAULT = SamplingParams()
_ALWAYS = ("max_tokens", "temperature", "seed")


def sampling_fields(
    sampling: SamplingParams, server: RemoteServer, left_out: frozenset[str] = frozenset()
) -> Json:
    """The parameters that a request sends: some always, the others if they are not the defaults.

    Args:
        sampling: The parameters.
        server: The server.
        left_out: Names of those that are not sent.

    Raises:
        Unsupported: The server takes one of them in no field; it might drop it silently. Or its
            log-probabilities are not those of the embedded engine.
    """
    asked = logprob_fields(sampling, server)
    given: Json = {
        one.name: value
        for one in fields(sampling)
        if (value := getattr(sampling, one.name)) != getattr(_DEFAULT, one.name)
        or one.name in _ALWAYS
    }
    left_out |= server.fixed | {"logprobs"}
    given = {name: value for name, value in given.items() if name not in left_out}
    if unknown := [name for name in given if name not in server.fields]:
        raise Unsupported(
            f"{server.where} is not known to take {', '.join(unknown)}",
            hint="Leave these out, or use vLLM, SGLang, llama.cpp or the embedded engine",
        )
    return {server.fields[name]: _value(name, value) for name, value in given.items()} | dict(asked)


def _value(name: str, value: Any) -> Any:
    match name:
        case "seed":
            return value % SEED_LIMIT
        case "stop":
            return list(value)
    return value
