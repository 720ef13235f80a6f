"""Settings of one `agentrt run`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

from agentrt.base.config import PolicyName
from agentrt.base.engine_selection import EngineSelection
from agentrt.base.errors import UsageError

SECONDS_OF = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0}


@dataclass(frozen=True, slots=True)
class TraceTarget:
    """Destination of spans.

    Attributes:
        kind: `jaeger` sends to the collector in `OTEL_*`, else writes a file; `file` always writes
            a file; `otlp` sends; `off` does neither.
        url: Address of the collector for `otlp`; "" leaves it to `OTEL_*`.
        folder: Folder of files.
    """

    kind: Literal["jaeger", "file", "otlp", "off"] = "jaeger"
    url: str = ""
    folder: Path = Path("traces/runs")


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings of one `agentrt run`.

    Attributes:
        target: `FILE[:FN]` as given.
        given: The program's own flags, by parameter.
        args: Value of `--args`, or None.
        batch: File of inputs, or None for one run.
        concurrency: Maximum number of concurrent runs, with `batch`.
        selection: Engine and model.
        deadline_s: Deadline of each run, or None.
        tenant: Tenant of the runs, for fair share.
        priority: Priority of each run relative to others of the tenant.
        policy: Scheduling policy of the engine.
        speculate: Whether tools without effects are called ahead.
        seed: Seed of each run.
        trace: Destination of spans.
        as_json: One `agentrt.run/1` object a run on standard output.
        quiet: Nothing but errors on standard error.
        verbose: Also print bars over time and tracebacks.
        bound: Print the lower bound of each run's latency.
    """

    target: str
    given: dict[str, Any] = field(default_factory=dict)
    args: str | None = None
    batch: Path | None = None
    concurrency: int = 8
    selection: EngineSelection = field(default_factory=EngineSelection)
    deadline_s: float | None = None
    tenant: str = ""
    priority: int = 0
    policy: PolicyName = "rwa"
    speculate: bool = False
    seed: int | None = None
    trace: TraceTarget = TraceTarget()
    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    bound: bool = False


def policy_of(text: str) -> PolicyName:
    """A policy for real runs.

    Raises:
        UsageError: There is no policy of that name, or it is for replays.
    """
    for name in get_args(PolicyName):
        if name == text and name != "oracle":
            return cast(PolicyName, name)
    replays = "is for replays, which know what their runs will need"
    why = replays if text == "oracle" else "is no policy"
    raise UsageError(f"--policy {text!r} {why}", hint="give rwa, plas, lpm or fcfs")


def seconds(text: str) -> float:
    """A duration: `2`, `2s`, `1.5s`, `800ms`, `3m`.

    Raises:
        UsageError: The text is not a duration above 0.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min)?", text.strip())
    value = float(match[1]) * SECONDS_OF[match[2] or ""] if match else 0.0
    if value <= 0:
        raise UsageError(
            f"--deadline {text!r} is no duration above 0", hint="give seconds, as 2, 1.5s or 800ms"
        )
    return value


def trace_target(text: str) -> TraceTarget:
    """Destination of spans: `jaeger`, `otlp`, `otlp=URL`, `file=DIR` or `off`.

    Raises:
        UsageError: The text is anything else.
    """
    kind, equals, rest = text.partition("=")
    if kind == "otlp" and (rest.startswith(("http://", "https://")) or not equals):
        return TraceTarget("otlp", url=rest)
    if kind == "file" and rest:
        return TraceTarget("file", folder=Path(rest))
    if kind in ("jaeger", "off") and not equals:
        return TraceTarget("jaeger" if kind == "jaeger" else "off")
    raise UsageError(
        f"--trace {text!r} names no place for traces",
        hint="give jaeger, otlp=http://HOST:4318, file=DIR or off",
    )
