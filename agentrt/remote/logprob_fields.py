"""Fields of a request by which a server reports log-probabilities as the embedded engine does.

Those of the embedded engine are of the distribution that a token is drawn from: after temperature
and penalties, before `top_k`, `top_p` and `min_p`. Servers report the model's own, or those after
all of these. A request is refused if the numbers of its server would be other ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentrt.base.errors import Unsupported
from agentrt.base.sampling_params import SamplingParams
from agentrt.remote.remote_server import RemoteServer

_DEFAULT = SamplingParams()
_PENALTIES = ("presence_penalty", "frequency_penalty", "repetition_penalty")
_CUTS = ("top_k", "top_p", "min_p")


def logprob_fields(sampling: SamplingParams, server: RemoteServer) -> Mapping[str, Any]:
    """The fields; none if no log-probabilities are asked for.

    Raises:
        Unsupported: The server reports none by token id, or other ones.
    """
    if not sampling.logprobs:
        return {}
    if server.tokens is None or server.codec is None:
        raise Unsupported(
            f"{server.where} gets messages, and log-probabilities need token ids",
            hint='Give the engine its tokenizer (tokenizer = "DIRECTORY"), or leave logprobs at 0',
        )
    door = server.tokens.logprobs
    if door is None:
        raise Unsupported(
            f"{server.where} names the alternatives of a token by their text, not by their ids",
            hint="Leave logprobs at 0, or use vLLM, agentrt serve or the embedded engine",
        )
    if door.stage == "model" and (changed := _changed_by(sampling)):
        raise Unsupported(
            f"{server.where} reports log-probabilities of the model alone, which "
            f"{', '.join(changed)} would change",
            hint="Generate at temperature 0 or 1 without penalties (at 1 without top_k, top_p and "
            "min_p), or leave logprobs at 0",
        )
    return {door.field: sampling.logprobs, **door.fields}


def _changed_by(sampling: SamplingParams) -> list[str]:
    """Parameters with which the model's own log-probabilities may not be those of the draw.

    At temperature 0 vLLM takes no account of the parameters that cut the distribution, and neither
    does the definition; at 1 a server with processed log-probabilities would.
    """
    names = _PENALTIES if sampling.temperature == 0 else (*_PENALTIES, *_CUTS)
    changed = [name for name in names if getattr(sampling, name) != getattr(_DEFAULT, name)]
    return changed if sampling.temperature in (0, 1) else ["temperature", *changed]
