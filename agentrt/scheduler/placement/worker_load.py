"""Facts of placement: costs of tokens, the request, and the load of a worker."""

from __future__ import annotations

import math
from dataclasses import dataclass

from agentrt.base.record import record


@record
class TokenCosts:
    """Work that a token makes for a worker of weight 1, in a full batch.

    Attributes:
        prefill_s: Work of a prompt token that is not in the KV cache, in seconds.
        decode_s: Work of an output token, in seconds.
    """

    prefill_s: float = 1 / 8000
    decode_s: float = 1 / 1000

    def work_s(self, uncached_tokens: float, output_tokens: float) -> float:
        """Work of a request."""
        return uncached_tokens * self.prefill_s + output_tokens * self.decode_s

    def times(self, factor: float) -> TokenCosts:
        """The costs of a worker that needs so many times as long."""
        return TokenCosts(self.prefill_s * factor, self.decode_s * factor)


@record
class PlacementRequest:
    """A request that needs a worker.

    Attributes:
        key: The prompt as bytes. Whatever keeps caches apart, such as a model, a salt or tools,
            stands at its beginning.
        prompt_tokens: Length of the prompt.
        output_tokens: Learned length of the output; 0 if unknown.
        run_id: Run of the request; "" for one that belongs to none.
        waited_s: Time for which it has been held back.
        excluded: Workers that it must not go to, such as one that has just lost it.
    """

    key: bytes
    prompt_tokens: float
    output_tokens: float = 0.0
    run_id: str = ""
    waited_s: float = 0.0
    excluded: frozenset[str] = frozenset()


@dataclass(slots=True, eq=False)
class WorkerLoad:
    """The load of one worker.

    Attributes:
        name: Name of the worker.
        weight: Speed, as a multiple of that for which the costs of tokens hold.
        healthy: Whether it answers.
        draining: Whether it gets no new requests.
        room: Requests that it may still be sent now; infinite if unknown.
        in_flight_s: Learned work of the requests that it has, or that wait for it.
        recent_s: Learned work that it was sent of late; older work fades as the fleet gets more.
        costs: Costs of tokens there, as learned, times its weight; None if nothing has shown them.
    """

    name: str
    weight: float = 1.0
    healthy: bool = True
    draining: bool = False
    room: float = math.inf
    in_flight_s: float = 0.0
    recent_s: float = 0.0
    costs: TokenCosts | None = None

    @property
    def eligible(self) -> bool:
        """Whether it may get new requests."""
        return self.healthy and not self.draining
