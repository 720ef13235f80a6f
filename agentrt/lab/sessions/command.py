"""`agentrt bench sessions`: sessions of agents on one engine after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import anyio
import typer

from agentrt.lab.errors import BenchFailed
from agentrt.lab.flags import require
from agentrt.lab.number_bounds import RATE
from agentrt.lab.progress import log
from agentrt.lab.result_file import header, machine, short_paths, write_json
from agentrt.lab.sessions.arms import open_arm
from agentrt.lab.sessions.flags import SessionFlags
from agentrt.lab.sessions.session_bench import SessionBench
from agentrt.lab.sessions.setup import session_setup
from agentrt.lab.sessions.slo import Slo

Json = dict[str, Any]
SCHEMA = "agentrt.bench.sessions/1"
AUTO = "auto"


def run_sessions_bench(flags: SessionFlags) -> None:
    """Play sessions; each play prints a line, and writes the file anew.

    Raises:
        UsageError: A flag is out of range.
        BenchFailed: An engine does not work, or a turn failed.
    """
    slo = Slo(flags.first, flags.speed, flags.share)
    rates = _rates(flags.rate)
    setup = session_setup(flags)
    found: Json = {
        **header(SCHEMA),
        "machine": machine(),
        "slo": asdict(slo),
        "trace": flags.trace,
        "model": asdict(setup.model.shape) if setup.model is not None else None,
        "dtype": flags.dtype,
        "kv_tokens": flags.kv_tokens,
        "slots": flags.slots,
        "seed": flags.seed,
        "arms": [],
    }
    errors: list[str] = []
    for engine in setup.engines:
        log(f"{engine}: opening")
        bench = SessionBench(flags, setup.source, setup.reader(engine), slo, rates)
        probe = bench.session(0).shortened(2, 0)
        opening = partial(open_arm, engine, replace(setup.settings, probe=probe))
        earlier = found["arms"]

        def keep(arm: Json, name: str = engine, earlier: Sequence[Json] = earlier) -> None:
            about = short_paths(arm["about"])
            found["arms"] = [*earlier, {**arm, "name": name, "about": about}]
            write_json(flags.json_path, found)

        anyio.run(bench.run, engine, opening, keep)
        errors += bench.errors()
    for line in _ratios(found["arms"]):
        typer.echo(line)
    if errors:
        raise BenchFailed(f"{len(errors)} agents failed, the first with {errors[0]}")


def _rates(text: str) -> tuple[float, ...] | None:
    """Rates in rising order; None searches."""
    if text == AUTO:
        return None
    try:
        found = tuple(sorted({float(part) for part in text.split(",")} if text else ()))
    except ValueError:
        found = (-1.0,)
    require(
        all(rate > 0 for rate in found),
        f"--rate {text} is no list of rates",
        "Give agents a second, such as --rate 0.1,0.2, or auto",
    )
    for rate in found:
        RATE.check(rate, "--rate")
    return found


def _ratios(arms: Sequence[Json]) -> list[str]:
    """Agents sustained by the first engine beside each other one."""
    known = [(arm["name"], arm["sustained"]) for arm in arms if "sustained" in arm]
    return [
        f"{known[0][0]} sustains {known[0][1]['agents'] / other['agents']:.2f} times the agents of "
        f"{name}"
        for name, other in known[1:]
        if other["agents"]
    ]
