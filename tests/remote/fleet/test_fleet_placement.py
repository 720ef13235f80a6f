"""Reports of cached tokens, and times of answers, in the terms of the placer."""

from typing import Any, cast

import pytest

from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.protocol.backend import GenerateRequest, TokenPrompt
from agentrt.protocol.step_output import End, Ledger
from agentrt.remote.admission.request_pacer import RequestPacer
from agentrt.remote.admission.request_turn import RequestTurn
from agentrt.remote.fleet.fleet_placement import FleetPlacement
from agentrt.remote.fleet.fleet_route import FleetRoute
from agentrt.remote.fleet.fleet_worker import FleetWorker

BLOCK = 32


class Fleet:
    """One worker whose engine shares blocks of 32 tokens."""

    def __init__(self) -> None:
        nothing = cast("Any", None)
        self.worker = FleetWorker("a", 1.0, nothing, nothing, RequestPacer())
        self.worker.health = "up"
        self.placement = FleetPlacement([self.worker], gap_s=10.0)
        self.now_s = 0.0
        self.requests = 0

    def ask(
        self, ids: list[int], cached: int, output_tokens: int = 10, took_s: float = 1.0
    ) -> None:
        """A request, and the engine's report of the tokens that it found."""
        self.requests += 1
        number = RequestId(self.requests)
        request = GenerateRequest(
            *(number, RunId(f"run {number}"), NodeId("0"), "site"),
            prompt=TokenPrompt(tuple(ids)),
            sampling=SamplingParams(max_tokens=10),
        )
        route = FleetRoute(request, RequestTurn(self.requests), cast("Any", None), 0.0, 0.0)
        self.placement.send(route, self.worker, self.now_s)
        self.now_s += took_s
        self.placement.note_output(route)
        found = Ledger(prompt_tokens=len(ids), cached_tokens=cached, output_tokens=output_tokens)
        self.placement.end(route, self.worker, End(number, "stop", found), self.now_s)

    def matched_tokens(self, ids: list[int]) -> float:
        request = GenerateRequest(
            *(RequestId(9999), RunId("probe"), NodeId("0"), "site"),
            prompt=TokenPrompt(tuple(ids)),
            sampling=SamplingParams(max_tokens=10),
        )
        route = FleetRoute(request, RequestTurn(9999), cast("Any", None), 0.0, 0.0)
        placed = self.placement.choose(route, self.now_s)
        assert placed is not None
        return dict(placed.terms)["matched_tokens"]


def text(number: int, tokens: int = 1000) -> list[int]:
    return list(range(number * 10_000, number * 10_000 + tokens))


@pytest.mark.parametrize("tokens", [415, 447, 1000, 1023])
def test_whole_blocks_of_an_engine_are_no_eviction(tokens: int) -> None:
    fleet = Fleet()
    other, chat = text(1), text(2, tokens)
    fleet.ask(other, 0)
    for _ in range(4):
        fleet.ask(chat, 0 if chat == text(2, tokens) else (len(chat) - 20) // BLOCK * BLOCK)
        chat = chat + text(len(chat), 20)
    assert fleet.matched_tokens(other) > 900, "the other prompt is believed to be there still"


def test_a_prefix_that_is_computed_again_was_evicted() -> None:
    fleet = Fleet()
    other, chat = text(1), text(2)
    fleet.ask(other, 0)
    fleet.ask(chat, 0)
    fleet.ask(chat, 992)
    fleet.ask(chat, 0)
    assert fleet.matched_tokens(other) == 0, "what is older is gone, too"


def test_times_of_answers_become_the_costs_of_a_server() -> None:
    fleet = Fleet()
    for number in range(40):
        fleet.ask(text(number, 64), 0, output_tokens=100, took_s=20.0)
    route_costs = fleet.placement.costs_of(fleet.worker)
    assert route_costs.work_s(64, 100) == pytest.approx(20.0, rel=0.05)
