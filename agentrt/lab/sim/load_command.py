"""`agentrt sim load`."""

from __future__ import annotations

from typing import Any

from agentrt.lab.flags import rate_factors, rate_of
from agentrt.lab.result_file import commit
from agentrt.lab.sim.arms import arms_named
from agentrt.lab.sim.command import Log, about, study_of
from agentrt.lab.sim.draw_workers import DrawWorkers
from agentrt.lab.sim.flags import LoadFlags
from agentrt.lab.sim.load import LoadCurves, load_curves


def run_load(flags: LoadFlags, log: Log) -> tuple[LoadCurves, dict[str, Any]]:
    """Find the rate at which a gated queue is slow, and serve every draw by every arm around it.

    Returns the settings too.

    Raises:
        UsageError: A name is unknown, or a number is out of range.
    """
    arms, rate = arms_named(flags.policies), rate_of(flags.rate, "--rate")
    relative = rate_factors(flags.factors, "--factors")
    study = study_of(flags)
    with DrawWorkers(flags, flags.kv_tokens, flags.processes) as workers:
        found = load_curves(
            workers.serve,
            arms,
            kv_tokens=flags.kv_tokens,
            draws=flags.draws,
            slowdown=flags.slowdown,
            first_rate=study.full_rate,
            factors=relative,
            rate=rate,
            log=log,
        )
    setting = about(flags, study.mixed, flags.host_kv_tokens)
    return found, {**setting, "commit": commit(), "warm": flags.warm}
