"""What is warmed is always a beginning of what is sent, whatever comes in whatever order."""

from collections import deque
from typing import Any

import anyio
from hypothesis import given
from hypothesis import strategies as st

from agentrt.base.clock import MonotonicClock
from agentrt.base.errors import EngineUnavailable, record_of
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import Capabilities, GenerateRequest, HoleFill, TokenPrompt
from agentrt.protocol.event_queue import EventQueue
from agentrt.protocol.step_output import End, FinishReason, Ledger, StepDone
from agentrt.remote.warming.leftover_room import MOST_WARM_UPS, SpareRoom
from agentrt.remote.warming.warm_prefix import LEAST_NEW_TOKENS, prefix_to_warm
from agentrt.remote.warming.warming_backend import MOST_AT_ONCE, WarmingBackend
from tests.remote.warming.prefix_server import request

BLOCK = 64
ENDS: dict[str, FinishReason] = {"answered": "stop", "refused": "failed", "gave way": "cancelled"}


class Inner:
    """An engine that ends requests as it is told to."""

    def __init__(self) -> None:
        self.requests: dict[RequestId, GenerateRequest] = {}
        self.seen: list[GenerateRequest] = []
        self.queue = EventQueue()
        self.capabilities = Capabilities("remote", "m", "tokens", prefills_ahead=True)

    def submit(self, one: GenerateRequest) -> None:
        assert one.request_id not in self.requests
        self.requests[one.request_id] = one
        self.seen.append(one)

    def cancel(self, request_id: RequestId, reason: str) -> None:
        if request_id in self.requests:
            self.end(request_id, "cancelled")

    def end(self, request_id: RequestId, reason: FinishReason) -> None:
        prompt = self.requests.pop(request_id).prompt
        assert isinstance(prompt, TokenPrompt)
        error = record_of(EngineUnavailable("no")) if reason == "failed" else None
        ledger = Ledger(prompt_tokens=len(prompt.token_ids))
        self.queue.put(StepDone(None, (), (End(request_id, reason, ledger, error=error),)))

    def events(self) -> Any:
        return self.queue.read()

    @property
    def warm_ups(self) -> list[RequestId]:
        return [one.request_id for one in self.requests.values() if one.ahead]


@given(
    prompts=st.lists(st.lists(st.integers(1, 900), min_size=1, max_size=6), min_size=1, max_size=4),
    same=st.booleans(),
    moves=st.lists(st.sampled_from(["fill", "cancel", *ENDS]), max_size=40),
    chooser=st.randoms(use_true_random=False),
)
def test_a_warm_up_is_a_beginning_of_its_prompt(prompts, same, moves, chooser):
    """Of one that is sent later, and of one that is filled in other parts too."""

    async def main() -> None:
        inner = Inner()
        backend = WarmingBackend(inner, MonotonicClock(), BLOCK)  # type: ignore[arg-type]
        whole: dict[int, range] = {}
        left: dict[int, deque[int] | None] = {}
        ends: list[RequestId] = []

        async def read() -> None:
            async for step in backend.events():
                assert isinstance(step, StepDone)
                ends.extend(end.request_id for end in step.ends)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            for number, parts in enumerate(prompts):
                begin = 0 if same else 10_000 * number
                whole[number] = range(begin, begin + sum(parts))
                left[number] = deque(parts[1:])
                backend.submit(request(number, whole[number][: parts[0]], complete=False))
            for move in [*moves, *["fill"] * 40]:
                held = [number for number in left if left[number] is not None]
                if move in ENDS and (going := inner.warm_ups):
                    inner.end(chooser.choice(going), ENDS[move])
                elif move == "cancel" and held and len(held) > 1:
                    number = chooser.choice(held)
                    backend.cancel(RequestId(number), "no need")
                    left[number] = None
                elif held:
                    number = chooser.choice(held)
                    rest = left[number]
                    assert rest is not None
                    so_far = len(whole[number]) - sum(rest)
                    size = rest.popleft() if rest else 0
                    ids = tuple(whole[number][so_far : so_far + size])
                    backend.fill_hole(RequestId(number), HoleFill(ids, complete=not rest))
                    if not rest:
                        left[number] = None
                assert len(inner.warm_ups) <= MOST_AT_ONCE
                await anyio.wait_all_tasks_blocked()
            for request_id in list(inner.requests):
                inner.end(request_id, "stop")
            inner.queue.close()
        assert sorted(ends) == sorted(whole), "each ends once, and no warm-up is seen"
        for one in inner.seen:
            assert isinstance(one.prompt, TokenPrompt)
            sent = one.prompt.token_ids
            if one.ahead:
                number = int(one.node_id.removeprefix("node"))
                assert sent == tuple(whole[number][: len(sent)])
                assert len(sent) % BLOCK == 0 < len(sent)
            elif one.prompt.complete:
                assert sent == tuple(whole[one.request_id])

    anyio.run(main)


@given(st.integers(0, 5000), st.integers(0, 5000), st.sampled_from([1, 16, 64]))
def test_a_prefix_is_whole_blocks_that_are_worth_it(known, reached, block):
    found = prefix_to_warm(known, reached, block)
    assert found % block == 0
    assert found <= known
    assert found == 0 or found - reached >= LEAST_NEW_TOKENS
    assert found or known - reached < LEAST_NEW_TOKENS + block


def test_there_is_room_if_nothing_else_needs_it():
    def against(**more: Any) -> str:
        idle = {"waiting_here": 0, "waiting_there": 0, "in_flight": 0, "warm_ups": 0, "window": 8}
        return SpareRoom(**(idle | more)).reason_against()

    assert against() == ""
    assert against(in_flight=7) == ""
    assert "wait to be sent" in against(waiting_here=1)
    assert "wait at the server" in against(waiting_there=1)
    assert "as it computes at once" in against(in_flight=8)
    assert "as it computes at once" in against(in_flight=7, warm_ups=1)
    assert "as it computes at once" in against(ready=False)
    assert "others" in against(warm_ups=MOST_WARM_UPS).replace("other prompts", "others")


def test_requests_take_the_room_of_the_newest():
    assert SpareRoom(0, 0, in_flight=7, warm_ups=2, window=8).excess == 1
    assert SpareRoom(0, 0, in_flight=9, warm_ups=2, window=8).excess == 2
    assert SpareRoom(0, 0, in_flight=9, warm_ups=2, window=float("inf")).excess == 0
