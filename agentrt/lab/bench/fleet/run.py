"""A run over a fleet: the strongest client and its rate, then all arms in turns at that rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field

from agentrt.analysis.statistics import mean
from agentrt.base.record import record
from agentrt.lab.arms.arm_process import ArmProcess
from agentrt.lab.arms.program_arm import play
from agentrt.lab.bench.compound.figures import played
from agentrt.lab.bench.compound.load_draw import LoadDraw
from agentrt.lab.bench.compound.plan import Round
from agentrt.lab.bench.fleet.arrival_bell import ArrivalBell
from agentrt.lab.bench.fleet.fleet_play import FleetPlay, PlayKey, fleet_play
from agentrt.lab.bench.fleet.fleet_targets import CLIENT
from agentrt.lab.bench.fleet.replicas import Replicas
from agentrt.lab.bench.fleet.token_clock import TokenClock
from agentrt.lab.operating_point import RateProbe, RateSearch, find_rate
from agentrt.lab.progress import WorkPace, log
from agentrt.lab.quiet_machine import QuietMachine, read_cpu

_SEARCH = RateSearch(near=0.15, factor=1.25, most_halvings=3, most_probes=5)
_RATE_TOKENS = 1000.0
_SEARCHED = -1
"""Number of a play that is part of the search."""

RoundAt = Callable[[LoadDraw, float, str], Round]
"""The round of a draw at a rate, with text of its own."""


@record
class StrongestClient:
    """The plain client at its best width, and the rate at which it is slow.

    Attributes:
        width: Programs under way at most; 0 for no limit.
        rate: Programs for every 1,000 tokens served.
        slowdown: Mean slowdown there.
        widths: Mean slowdown by width at one rate.
        tried: Mean slowdown by rate.
    """

    width: int
    rate: float
    slowdown: float
    widths: Mapping[int, float] = field(default_factory=dict)
    tried: Sequence[tuple[float, float]] = ()


class FleetRun:
    """Plays of arms on one fleet.

    Args:
        replicas: The servers.
        round_at: Makes rounds.
        quiet: Check before each play.
        kept: Plays of an earlier part, which are not played again.
        on_play: Called after each play.

    Attributes:
        plays: Plays so far, those of the search included.
        arms: Opened arms by name.
    """

    def __init__(
        self,
        replicas: Replicas,
        round_at: RoundAt,
        quiet: QuietMachine,
        *,
        kept: Iterable[FleetPlay] = (),
        on_play: Callable[[Sequence[FleetPlay]], None] | None = None,
    ) -> None:
        self.plays: list[FleetPlay] = list(kept)
        self.arms: dict[str, ArmProcess] = {}
        self._known: dict[PlayKey, FleetPlay] = {one.key: one for one in self.plays}
        self._on_play = on_play
        self._replicas = replicas
        self._round_at = round_at
        self._quiet = quiet
        self._texts = 0

    def open(self, name: str, process: ArmProcess, stack: ExitStack) -> None:
        """Add an arm; the stack closes it."""
        stack.callback(process.close)
        self.arms[name] = process

    def play(
        self, arm: str, draw: LoadDraw, rate: float, number: int = 0, width: int = 0
    ) -> FleetPlay:
        """Let an arm play a draw, unless it has; every play has text of its own.

        Args:
            arm: Name of the arm.
            draw: The programs.
            rate: Programs for every 1,000 tokens served.
            number: Number of the play.
            width: Programs under way at most; 0 for no limit.

        Raises:
            BenchFailed: The arm or a server failed, or the arm did other work than it had to.
        """
        key = (arm, draw.number, number, rate, width)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._played(key, draw)
            self.plays.append(found)
            log(_told(found))
            if self._on_play is not None:
                self._on_play(self.plays)
        return found

    def _played(self, key: PlayKey, draw: LoadDraw) -> FleetPlay:
        arm, _, _, rate, width = key
        self._quiet.check()
        self._texts += 1
        lines = self._round_at(draw, rate, str(self._texts)).lines(arm)
        process = self.arms[arm]
        options = {"programs_at_once": width} if width else {}
        before, began_s = read_cpu(process.groups), time.monotonic()
        with (
            self._replicas.running(),
            ArrivalBell([_RATE_TOKENS * line["at_s"] for line in lines]) as bell,
            TokenClock(self._served, on_look=bell.look, on_failure=process.give_up) as clock,
        ):
            found = play(process, lines, arrivals=bell.address, **options)
        took_s, after = time.monotonic() - began_s, read_cpu(process.groups)
        pairs = zip(lines, found.samples, strict=True)
        return fleet_play(
            key,
            [played(line, sample, arm=arm) for line, sample in pairs],
            clock,
            took_s=took_s,
            others_cores=after.others_cores(before) if before and after else None,
        )

    def strongest_client(
        self,
        draws: Sequence[LoadDraw],
        widths: Sequence[int],
        *,
        first_rate: float,
        slowdown: float,
        rate: float = 0.0,
    ) -> StrongestClient:
        """Find the client's rate, its best width there, and its rate again at that width.

        Args:
            draws: The draws of the comparison.
            widths: Numbers of programs under way that may be the best; 0 for no limit.
            first_rate: Rate at which the search begins.
            slowdown: Mean slowdown to be found.
            rate: Programs for every 1,000 tokens served if they are given; 0 searches.

        Raises:
            BenchFailed: The client failed.
        """
        tried: list[tuple[float, float]] = []

        def probe(width: int, every: Sequence[LoadDraw]) -> Callable[[float], RateProbe]:
            def at(rate: float) -> RateProbe:
                done = [self.play(CLIENT, one, rate, _SEARCHED, width) for one in every]
                tried.append((rate, mean([one.mean_slowdown for one in done])))
                return RateProbe(rate, 0, tried[-1][1], 0.0)

            return at

        start = rate or find_rate(probe(0, draws[:1]), first_rate, slowdown, _SEARCH).rate
        found = {
            width: self.play(CLIENT, draws[0], start, _SEARCHED, width).mean_slowdown
            for width in widths
        }
        best = min(found, key=found.__getitem__)
        again = probe(best, draws)
        last = again(start) if rate else find_rate(again, start, slowdown, _SEARCH)
        return StrongestClient(best, last.rate, last.slowdown, found, tuple(tried))

    def compare(
        self, draws: Sequence[LoadDraw], plays: int, client: StrongestClient, warm: LoadDraw
    ) -> list[FleetPlay]:
        """Let all arms play every draw at the client's rate, after one draw to learn from.

        Args:
            draws: The draws.
            plays: Plays of each.
            client: The plain client, and its rate.
            warm: Other programs, from which our arms learn.

        Raises:
            BenchFailed: An arm failed.
        """
        names, rate = list(self.arms), client.rate
        widths = {name: client.width if name == CLIENT else 0 for name in names}
        todo = [
            (name, draw, number)
            for at, (number, draw) in enumerate(
                (number, draw) for number in range(plays) for draw in draws
            )
            for name in names[at % len(names) :] + names[: at % len(names)]
        ]
        missing = [
            name
            for name, draw, number in todo
            if (name, draw.number, number, rate, widths[name]) not in self._known
        ]
        for name in names:
            if name in missing and name != CLIENT:  # what an earlier part has learned is gone
                self._known.pop((name, warm.number, 0, rate, 0), None)
                self.play(name, warm, rate)
        pace, found = WorkPace("plays", len(missing)), []
        for name, draw, number in todo:
            before = len(self.plays)
            found.append(self.play(name, draw, rate, number, widths[name]))
            if len(self.plays) > before:  # no play of an earlier part
                pace.done()
        return found

    def _served(self) -> int:
        return self._replicas.counts()["output_tokens"]


def _told(done: FleetPlay) -> str:
    width = f", width {done.width}" if done.width else ""
    return (
        f"{done.arm}, draw {done.draw}, {done.rate:.3g} programs for 1,000 tokens{width}: mean "
        f"slowdown {done.mean_slowdown:.2f}, p99 {done.p99_slowdown:.1f}, mean latency "
        f"{done.mean_latency_tokens:.0f} tokens or {done.mean_latency_s:.2f} s, cached "
        f"{done.cached_tokens / max(1, done.prompt_tokens):.3f}, {done.took_s:.0f} s"
    )
