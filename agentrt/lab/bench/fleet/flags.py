"""Flags of `agentrt bench fleet`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from agentrt.base.record import record
from agentrt.lab.flags import (
    RESUME,
    Count,
    JsonPath,
    Repeats,
    Seed,
    Slowdown,
    numbers,
    rate_of,
)
from agentrt.lab.number_bounds import RATE, NumberBounds
from agentrt.lab.quiet_machine import Busy
from agentrt.lab.resumed_file import ResumedFile

FLEET_FILE = ResumedFile(
    "agentrt.bench.fleet/2",
    "Give --resume a file of agentrt bench fleet, or one that is not there yet",
)


@record
class FleetBenchFlags:
    """Flags of `agentrt bench fleet`.

    Attributes:
        shape: Shape of the model: micro, tiny, half or embedded.
        replicas: Servers with a core each.
        requests: Sequences that a server computes at once.
        kv_tokens: KV memory of a server; at least as much as the longest request needs.
        longest: Tokens that a request may have; 0 takes the model's window.
        programs: Programs of a draw.
        draws: Draws of programs that count.
        plays: Plays of each draw by each arm.
        scale: Scale of lengths, times and counts, as in life,output=0.2.
        widths: Programs under way at most that may be the client's best; 0 for no limit.
        rate: Programs for every 1,000 tokens served; auto finds the rate at which the client is
            slow.
        first_rate: Rate at which that search begins.
        slowdown: Mean slowdown of the client at that rate.
        dtype: Dtype of the servers; float32 if none is given.
        busy: If other processes use the machine before a play: note it, wait or refuse.
    """

    shape: str = "tiny"
    replicas: Annotated[int, NumberBounds(1, 1024).check] = 2
    requests: Annotated[int, NumberBounds(1, 4096).check] = 2
    kv_tokens: int = 16384
    longest: int = 2048
    programs: Count = 60
    draws: Repeats = 3
    plays: Repeats = 2
    scale: str = "life,context=0.125,output=0.2,time=0.02,count=0.5,think=0"
    widths: Annotated[str, numbers] = "0,8,16,32"
    rate: Annotated[str, rate_of] = "auto"
    first_rate: Annotated[float, replace(RATE, takes_zero=False).check] = 6.4
    slowdown: Slowdown = 5.0
    dtype: str = ""
    seed: Seed = 0
    busy: Busy = "note"
    json_path: JsonPath = None
    resume: Annotated[Path | None, RESUME, FLEET_FILE.check] = None

    @property
    def width_list(self) -> tuple[int, ...]:
        """Widths of the client."""
        return numbers(self.widths, "--widths")

    @property
    def rate_given(self) -> float:
        """Programs a second; 0 searches."""
        return rate_of(self.rate, "--rate")

    @property
    def written(self) -> Path | None:
        """File that holds the plays so far."""
        return self.resume or self.json_path
