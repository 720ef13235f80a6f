"""The arms of a comparison: a policy, with or without the admission gate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from agentrt.base.config import REPLAY_POLICIES, PolicyName, SchedulerConfig
from agentrt.base.errors import UsageError

_OF_PROGRAMS: tuple[PolicyName, ...] = ("rwa", "oracle", "clairvoyant")
"""Policies with the gate and with hints; the others stand for engines that know requests only."""

PLAIN = SchedulerConfig(policy="fcfs", gate_share=0.0, retention=False)
"""Requests in the order of their arrival, without gate and hints."""


@dataclass(frozen=True, slots=True)
class SimArm:
    """One arm.

    Attributes:
        name: Name that was given.
        scheduler: Settings of the scheduler.
    """

    name: str
    scheduler: SchedulerConfig


def arms_named(names: str) -> tuple[SimArm, ...]:
    """The arms of a list such as `fcfs,rwa,rwa-gate,fcfs+gate`.

    Raises:
        UsageError: A name is unknown, or occurs twice.
    """
    found = tuple(_arm(name.strip()) for name in names.split(","))
    if len({arm.name for arm in found}) < len(found):
        raise UsageError(f"{names!r} names a policy twice", hint="Name each once")
    return found


def real_policies(names: str) -> list[PolicyName]:
    """The policies of a list such as `fcfs,rwa` by which an engine serves that knows no future.

    Raises:
        UsageError: A name is unknown, is that of another arm, or occurs twice.
    """
    arms = arms_named(names)
    found: list[PolicyName] = [arm.scheduler.policy for arm in arms]
    if not set(found).isdisjoint(REPLAY_POLICIES) or [arm.name for arm in arms] != found:
        raise UsageError(
            f"--policies {names}: the engine serves by fcfs, lpm, plas and rwa",
            hint="Leave oracle, clairvoyant, +gate and -gate out",
        )
    return found


def _arm(name: str) -> SimArm:
    base = name.removesuffix("+gate").removesuffix("-gate")
    policy = next((one for one in get_args(PolicyName) if one == base), None)
    if policy is None:
        raise UsageError(
            f"there is no policy {name!r}",
            hint=f"Use some of {', '.join(get_args(PolicyName))}, each with +gate or -gate",
        )
    knows = policy in _OF_PROGRAMS
    gated = knows if base == name else name.endswith("+gate")
    default = SchedulerConfig()
    share = default.gate_share if gated else 0.0
    return SimArm(
        name, SchedulerConfig(policy=policy, gate_share=share, retention=knows, share_nodes=knows)
    )
