"""The features of agentrt that an ablation takes away, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from agentrt.base.config import SchedulerConfig
from agentrt.base.record import record
from agentrt.lab.arms.arm_process import OURS
from agentrt.lab.arms.play_options import PlayOptions
from agentrt.lab.workloads.shapes import SHAPES

WITH_ALL = f"{OURS}:all"
"""Name of the arm that has every feature."""


@record
class OwnArm:
    """Settings of an arm of our runtime.

    Attributes:
        scheduler: Settings of the scheduler.
        engine: Fields of `EngineConfig` that differ from what a user gets.
        play: How programs are written.
    """

    scheduler: SchedulerConfig
    engine: Mapping[str, Any] = field(default_factory=dict)
    play: PlayOptions = field(default_factory=PlayOptions)


@record
class Feature:
    """A feature and the switch that takes it away.

    Attributes:
        what: Effect of the feature in a few words.
        without: The arm without it.
        touches: Shapes of programs in which it can have an effect while programs come one at a
            time; () if it needs several programs at once.
        count: Count of an arm's work that shows the feature; "" if there is none.
        spares: Whether the feature makes that count smaller; otherwise it is 0 without the feature.
    """

    what: str
    without: Callable[[OwnArm], OwnArm]
    touches: tuple[str, ...] = ()
    count: str = ""
    spares: bool = False


def _engine(**fields: Any) -> Callable[[OwnArm], OwnArm]:
    return lambda arm: replace(arm, engine={**arm.engine, **fields})


def _scheduler(**fields: Any) -> Callable[[OwnArm], OwnArm]:
    return lambda arm: replace(arm, scheduler=replace(arm.scheduler, **fields))


def _play(**fields: bool) -> Callable[[OwnArm], OwnArm]:
    return lambda arm: replace(arm, play=replace(arm.play, **fields))


_CHAINS = ("react", "skeleton", "map-reduce", "judge", "chat", "finance", "debate", "coding-agent")

FEATURES: Mapping[str, Feature] = {
    "forced-tokens": Feature(
        "tokens that a form determines take no step; without, as many are written freely",
        _play(forms=False),  # under a mask alone, random weights would spell them in more tokens
        ("react", "extraction", "finance"),
        "forced_tokens",
    ),
    "drafts": Feature(
        "tokens are guessed and computed along",
        _engine(speculate_tokens="off"),
        tuple(SHAPES),
        "drafted_tokens",
    ),
    "early-tools": Feature(
        "tools begin within their plan", _play(early_tools=False), ("finance",), "early_tools"
    ),
    "holes": Feature(
        "a call is declared before what it quotes has ended",
        _play(holes=False),
        _CHAINS,
        "early_calls",
    ),
    "streamed-fills": Feature(
        "a prompt takes the text of an output while that is written",
        _scheduler(stream_fills=False),
        (*_CHAINS, "tree-of-thought"),
        "late_tokens",
        spares=True,
    ),
    "prefill-ahead": Feature(
        "the likely next prompt is computed while a program waits",
        _scheduler(prefill_ahead=False),
        _CHAINS,
    ),
    "cancellation": Feature(
        "a vote gives up the calls that it does not need",
        _play(cancellation=False),
        ("self-consistency",),
        "given_up",
    ),
    "retention": Feature(
        "the engine is told which prefixes are worth keeping", _scheduler(retention=False)
    ),
    "sharing": Feature(
        "prompts use KV that other calls have computed",
        _engine(share_prefixes=False),
        tuple(SHAPES),
        "computed_tokens",
        spares=True,
    ),
    "coalescing": Feature("equal calls under way are computed once", _scheduler(share_nodes=False)),
    "order": Feature("least remaining work first, not the earliest", _scheduler(policy="fcfs")),
    "gate": Feature(
        "programs are admitted only if memory holds them",
        _scheduler(gate_share=0.0),
        count="held_calls",
    ),
}
"""Features by name, in the order of the table."""


def ablation(features: Sequence[str]) -> dict[str, OwnArm]:
    """An arm with every feature, and one without each of some.

    Args:
        features: Keys of `FEATURES`.
    """
    every = OwnArm(SchedulerConfig(prefill_ahead=True), {"speculate_tokens": "auto"})
    without = {without_name(name): FEATURES[name].without(every) for name in features}
    return {WITH_ALL: every, **without}


def without_name(feature: str) -> str:
    """Name of the arm without a feature."""
    return f"{OURS}:without-{feature}"
