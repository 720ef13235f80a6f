"""`PricedBackend`: an engine with prices, so that each end says what its request has cost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from agentrt.base.clock import Clock
from agentrt.base.ids import RequestId
from agentrt.base.prices import Prices
from agentrt.protocol.backend import Backend, Capabilities, GenerateRequest
from agentrt.protocol.backend_layer import BackendLayer
from agentrt.protocol.device_share import DeviceShare
from agentrt.protocol.step_output import BackendDown, BackendEvent, End, Ledger, StepDone


class PricedBackend(BackendLayer):
    """A backend with the prices of its engine.

    Args:
        backend: The engine.
        prices: Prices of the engine.
        clock: Clock of the time of an engine that reports no batches.
    """

    def __init__(self, backend: Backend, prices: Prices, clock: Clock) -> None:
        super().__init__(backend)
        self._prices = prices
        self._clock = clock
        self._share = DeviceShare()
        self._lost_s: dict[RequestId, float] = {}

    @property
    def capabilities(self) -> Capabilities:
        return replace(self._backend.capabilities, prices=self._prices)

    def submit(self, request: GenerateRequest) -> None:
        self._share.begin(request.request_id, self._clock.now_s())
        self._backend.submit(request)

    async def events(self) -> AsyncIterator[BackendEvent]:
        """All events; the ledger of each end has its cost."""
        async for event in self._backend.events():
            if isinstance(event, BackendDown):
                self._note_lost(event)
                yield event
            elif event.ends:
                yield self._priced(event)
            else:
                yield event

    def _note_lost(self, down: BackendDown) -> None:
        """Keep the time of lost requests for their next attempts."""
        for request_id in down.lost:
            lost_s = self._share.end(request_id, self._clock.now_s())
            lost_s += self._lost_s.pop(request_id, 0.0)
            if down.restarting:
                self._lost_s[request_id] = lost_s

    def _priced(self, step: StepDone) -> StepDone:
        now_s = self._clock.now_s()
        ends: list[End] = []
        for end in step.ends:
            shared_s = self._share.end(end.request_id, now_s)
            lost_s = self._lost_s.pop(end.request_id, 0.0)
            device_s = lost_s + (end.ledger.device_s if end.ledger.steps else shared_s)
            ends.append(replace(end, ledger=priced(end.ledger, self._prices, device_s)))
        return replace(step, ends=tuple(ends))


def priced(ledger: Ledger, prices: Prices, device_s: float) -> Ledger:
    """The ledger with the cost of its tokens, attempts that broke off included, and of the time.

    Args:
        ledger: The account of a request.
        prices: Prices of its engine.
        device_s: Time of the whole engine, in seconds.
    """
    tokens_pico = prices.tokens_pico(
        ledger.prompt_tokens, ledger.cached_tokens, ledger.output_tokens
    )
    retried_pico = prices.tokens_pico(ledger.retried_prompt_tokens, 0, ledger.retried_tokens)
    cost_pico = tokens_pico + retried_pico + prices.device_pico(device_s)
    return replace(
        ledger,
        cost_pico=cost_pico,
        retried_cost_pico=retried_pico,
        currency=prices.currency,
    )
