"""The loop around a core: commands reach it, a reader who does not read never stops it."""

import select
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import RequestRejected
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.process import main
from agentrt.engine.process.channel import Channel, OwnerGone
from agentrt.engine.process.forecasts import UNKNOWN_S
from agentrt.engine.process.life_signs import LifeSigns
from agentrt.engine.process.main import EngineLoop
from agentrt.engine.process.messages import (
    COMMANDS,
    REPORTS,
    Cancel,
    Command,
    ExtendPrompt,
    LoadEngine,
    Prewarm,
    Report,
    Reprioritize,
    Shutdown,
)
from agentrt.protocol.backend import (
    Capabilities,
    GenerateRequest,
    HoleFill,
    PrefixHint,
    SchedulingInfo,
    TokenPrompt,
)
from agentrt.protocol.step_output import Delta, End, StepDone, StepRecord
from agentrt.protocol.wire import FrameReader

ONE = RequestId(1)


def request(number: int, max_tokens: int = 3) -> GenerateRequest:
    return GenerateRequest(
        request_id=RequestId(number),
        run_id=RunId("0" * 16),
        node_id=NodeId("n"),
        site="",
        prompt=TokenPrompt((1,)),
        sampling=SamplingParams(max_tokens=max_tokens),
    )


class Counter:
    """A core whose tokens count up; everything it is told is kept."""

    def __init__(self) -> None:
        self.capabilities = Capabilities("embedded", "counter", "tokens")
        self.left: dict[RequestId, int] = {}
        self.ends: list[End] = []
        self.told: list[object] = []
        self.closed = False
        self.ran_out = threading.Event()
        self.on_launch: Callable[[int], None] | None = None

    def submit(self, request: GenerateRequest) -> None:
        if request.sampling.max_tokens == 13:
            raise RequestRejected("thirteen")
        self.left[request.request_id] = request.sampling.max_tokens

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        self.told.append(fill)

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        self.told += updates

    def cancel(self, request_id: RequestId, reason: str) -> None:
        del self.left[request_id]
        self.ends.append(End(request_id, "cancelled"))

    def hint(self, hint: PrefixHint) -> None:
        self.told.append(hint.hint)

    def prewarm(self, constraints: tuple[ConstraintSpec, ...], wait_s: float = 0.0) -> None:
        self.told += [(constraint, wait_s > 0) for constraint in constraints]

    def has_work(self) -> bool:
        return bool(self.left or self.ends)

    def step(self) -> StepDone | None:
        deltas = tuple(Delta(number, (left,), "x") for number, left in self.left.items())
        self.left = {number: left - 1 for number, left in self.left.items()}
        over = [number for number, left in self.left.items() if left == 0]
        ends = (*self.ends, *(End(number, "length") for number in over))
        self.ends = []
        for number in over:
            del self.left[number]
            self.ran_out.set()
        return StepDone(None, deltas, ends)

    def close(self) -> None:
        self.closed = True


class Hosted:
    """A host in a thread, and the owner's end of its socket."""

    def __init__(self) -> None:
        self.ours, theirs = socket.socketpair()
        self.core = Counter()
        self.reader = FrameReader()
        self.link = Channel(theirs)
        self.outcome: list[object] = []
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        try:
            EngineLoop(self.core, self.link).serve()
            self.outcome.append(None)
        except OwnerGone as gone:
            self.outcome.append(gone)
        self.link.close()

    def tell(self, *commands: Command) -> None:
        self.ours.sendall(b"".join(COMMANDS.frame(command) for command in commands))

    def hear_until(self, request_id: int) -> list[StepDone]:
        """Every report up to the end of a request."""
        found: list[StepDone] = []
        while not any(end.request_id == request_id for done in found for end in done.ends):
            for report in self.hear():
                assert isinstance(report, StepDone)
                found.append(report)
        return found

    def hear(self) -> list[Report]:
        """What has arrived, at least some bytes."""
        return [
            REPORTS.value(payload) for payload in self.reader.feed_data(self.ours.recv(1 << 16))
        ]


@pytest.fixture
def hosted():
    made = Hosted()
    yield made
    made.ours.close()
    made.thread.join()


def test_a_step_is_one_report(hosted):
    hosted.tell(request(1, 3), request(2, 3))
    reports = hosted.hear_until(2)
    assert [len(done.deltas) for done in reports] == [2, 2, 2]


def test_nobody_reads_and_the_core_goes_on(hosted):
    """Far more frames than a socket holds: the core gets to its end before we read one."""
    many = 5_000
    hosted.tell(request(1, many))
    hosted.core.ran_out.wait()
    reports = hosted.hear_until(1)
    counted = [done.deltas[0].token_ids[0] for done in reports]
    assert counted == list(range(many, 0, -1))


def test_what_a_core_refuses_ends_that_request_only(hosted):
    hosted.tell(request(1, 13), request(2, 1))
    reports = hosted.hear_until(2)
    (refused,) = reports[0].ends
    assert (refused.request_id, refused.reason) == (1, "failed")
    assert refused.error is not None
    assert refused.error.type == "RequestRejected"


def test_commands_for_what_is_over_stay_outside(hosted):
    fact = SchedulingInfo(ONE, demanded=True)
    fill = HoleFill((1,), complete=True)
    hosted.tell(request(1, 1))
    hosted.hear_until(1)
    hosted.tell(
        Cancel(ONE, "late"),
        ExtendPrompt(ONE, fill),
        Reprioritize((fact,)),
        PrefixHint((1,), "keep"),
    )
    hosted.tell(request(2, 5), Reprioritize((fact, SchedulingInfo(RequestId(2), demanded=False))))
    hosted.hear_until(2)
    assert hosted.core.told == ["keep", SchedulingInfo(RequestId(2), demanded=False)]


class Launching(Counter):
    """A core that notes the forecasts that hold while it schedules and while it computes."""

    def __init__(self, signs: LifeSigns) -> None:
        super().__init__()
        self.signs = signs
        self.forecasts: list[tuple[float, float]] = []

    def step(self) -> StepDone | None:
        before_s = self.signs.read().forecast_s
        assert self.on_launch is not None
        self.on_launch(0)
        self.forecasts.append((before_s, self.signs.read().forecast_s))
        record = StepRecord(len(self.forecasts), 1.0, 1.5, 0, 1, (ONE,))
        return replace(super().step() or StepDone(None, (), ()), step=record)


class Waits(Channel):
    """A channel that notes the forecast with which the loop waits for work."""

    def __init__(self, end: socket.socket, signs: LifeSigns) -> None:
        super().__init__(end)
        self.signs = signs
        self.forecasts: list[float] = []

    def receive(self, wait_s: float | None) -> list[Command]:
        if wait_s is None:
            self.forecasts.append(self.signs.read().forecast_s)
            return [request(1, 7)] if len(self.forecasts) == 1 else [Shutdown()]
        return super().receive(wait_s)


def test_its_signs_of_life_announce_each_phase_and_none_while_it_waits():
    ours, theirs = socket.socketpair()
    signs = LifeSigns()
    core, channel = Launching(signs), Waits(theirs, signs)
    EngineLoop(core, channel, signs).serve()
    assert core.forecasts == [*[(UNKNOWN_S, UNKNOWN_S)] * 5, *[(UNKNOWN_S, 0.5)] * 2]
    assert channel.forecasts == [0.0, 0.0]
    ours.close()
    channel.close()


def test_quitting_cancels_and_tells(hosted):
    hosted.tell(request(1, 10**9), Shutdown())
    (*_, last) = hosted.hear_until(1)
    assert last.ends[0].reason == "cancelled"
    hosted.thread.join()
    assert hosted.core.closed
    assert hosted.outcome == [None]


def test_it_ends_when_its_owner_is_gone(hosted):
    hosted.tell(request(1, 10**9))
    hosted.ours.close()
    hosted.thread.join()
    assert isinstance(hosted.outcome[0], OwnerGone)
    assert hosted.core.closed


def test_what_came_while_the_core_was_loading_is_compiled_before_it_serves():
    """Waited for up to the first thing else, which comes in its turn; later ones hold up nobody."""
    first, second, third = (ConstraintSpec("regex", text) for text in "abc")
    ours, theirs = socket.socketpair()
    core, reader = Counter(), FrameReader()
    server = EngineLoop(core, Channel(theirs))
    early = (Prewarm((first,)), Prewarm((second,)), request(1), Prewarm((third,)))
    ours.sendall(b"".join(COMMANDS.frame(command) for command in early))
    server.compile_prewarmed()
    assert core.told == [(first, True), (second, True)]
    assert not core.left
    ours.sendall(COMMANDS.frame(Shutdown()))
    server.serve()
    assert core.told[2:] == [(third, False)]
    reports = [REPORTS.value(payload) for payload in reader.feed_data(ours.recv(1 << 16))]
    ends = [end for done in reports if isinstance(done, StepDone) for end in done.ends]
    assert [end.request_id for end in ends] == [ONE]
    ours.close()
    theirs.close()


def test_its_heap_is_settled_once_all_is_loaded_and_before_its_owner_is_told(monkeypatch):
    monkeypatch.setattr(main, "load_core", lambda config, clock: Counter())
    ours, theirs = socket.socketpair()
    ours.sendall(
        COMMANDS.frame(LoadEngine(EngineConfig(Path("counter")))) + COMMANDS.frame(Shutdown())
    )

    def was_told() -> bool:
        return bool(select.select([ours], [], [], 0)[0])

    before: list[bool] = []
    code = main.serve_engine(theirs, MonotonicClock(), loaded=lambda: before.append(was_told()))
    assert (code, before, was_told()) == (0, [False], True)
    ours.close()
