"""Candidates of a tuning: the baseline, and each combination of levers that means something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from agentrt.base.config import EngineConfig
from agentrt.base.engine_selection import EngineSettings, check_draft_model, named_engine
from agentrt.base.engines.engine_file import DEFAULT_ROLE, EMBEDDED, EngineFile
from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.evaluation.engine_choice import EvaluationConfig
from agentrt.lab.tuning.engine_memory import EngineMemory, engine_memory
from agentrt.lab.tuning.levers import ENGINE, ROLE, SETTINGS, Levers, setting_of

MOST = 512
"""Combinations that are searched at most."""
BASELINE_NAME = "baseline"


@record
class TuningCandidate:
    """A configuration that may be chosen.

    Attributes:
        config: Name and engines.
        choices: Values of the levers in which it differs from the baseline, by name.
        embedded: Settings of the embedded engine; None if no role is played by it.
        engines: Name of the engine of each role, `default` included.
        memory: Memory of the embedded engine; None without one.
    """

    config: EvaluationConfig
    choices: Mapping[str, str]
    embedded: EngineConfig | None
    engines: Mapping[str, str]
    memory: EngineMemory | None


@record
class SearchSpace:
    """Configurations to search.

    Attributes:
        candidates: The baseline, then combinations that move few levers before others.
        left_out: Names of combinations that cannot be loaded here, by the reason.
    """

    candidates: Sequence[TuningCandidate]
    left_out: Mapping[str, Sequence[str]]


def search_space(
    levers: Levers, file: EngineFile, embedded: EngineConfig, engine: str
) -> SearchSpace:
    """The baseline, and combinations of the levers.

    Two combinations that come to the same engines are one, such as formats of an embedded engine
    that plays no role. Quantised weights are tried with the dtype of the baseline alone.

    Args:
        levers: Values of each lever.
        file: Engines and roles by name.
        embedded: Settings of the embedded engine in the baseline.
        engine: Name or URL of the baseline's engine of the default role.

    Raises:
        UsageError: No combination differs from the baseline, or there are more than `MOST`.
    """
    total = 1
    for values in levers.values():
        total *= len(values)
    if total > MOST:
        raise UsageError(
            f"the levers have {total} combinations, more than {MOST}",
            hint="name fewer values with --lever NAME=V1,V2",
        )
    roles = {**file.roles, DEFAULT_ROLE: engine}
    combined = [dict(zip(levers, one, strict=True)) for one in product(*levers.values())]
    made = [_candidate(one, file, embedded, roles) for one in ({}, *combined)]
    made.sort(key=lambda one: len(one.choices))  # stable: the baseline stays first
    found: dict[str, TuningCandidate] = {}
    left_out: dict[str, list[str]] = {}
    for number, one in enumerate(made):
        config = one.embedded
        if _is_odd(one, embedded):
            continue
        size, refusal = (None, "") if config is None else _sized(config)
        if refusal and number:
            names = left_out.setdefault(refusal, [])
            names += [] if one.config.name in names else [one.config.name]
            continue
        if refusal:
            raise UsageError(
                f"the baseline cannot be loaded: {refusal}", hint="agentrt doctor tells more"
            )
        sized = replace(one, memory=size)
        found.setdefault(_identity(sized), sized)
    if len(found) < 2:
        why = next(iter(left_out), "no lever has another value than the baseline")
        raise UsageError(
            f"there is nothing to search: {why}", hint="give --lever NAME=V1,V2, or --models A,B"
        )
    return SearchSpace(list(found.values()), left_out)


def _candidate(
    given: Mapping[str, str], file: EngineFile, embedded: EngineConfig, roles: Mapping[str, str]
) -> TuningCandidate:
    engines = dict(roles)
    own: dict[str, Any] = {}
    choices: dict[str, str] = {}
    for name, text in given.items():
        if name in SETTINGS:
            field, value = setting_of(name, text)
            own[field] = value
            if value != getattr(embedded, field):
                choices[name] = text
            continue
        role = DEFAULT_ROLE if name == ENGINE else name.removeprefix(ROLE)
        if engines.get(role) != text:
            choices[name] = text
        engines[role] = text
    config = replace(embedded, **own)
    plays = EMBEDDED in engines.values()
    if not plays:
        choices = {name: text for name, text in choices.items() if name not in SETTINGS}
    name = " ".join(f"{lever}={text}" for lever, text in choices.items()) or BASELINE_NAME
    settings: dict[str, EngineSettings] = {
        role: config if one == EMBEDDED else named_engine(one, file)
        for role, one in engines.items()
    }
    default = settings.pop(DEFAULT_ROLE)
    return TuningCandidate(
        EvaluationConfig(name, default, settings),
        choices,
        config if plays else None,
        engines,
        None,
    )


def _sized(config: EngineConfig) -> tuple[EngineMemory | None, str]:
    """The memory of an engine, and why it cannot be loaded."""
    try:
        check_draft_model(config)
        return engine_memory(config)
    except UsageError as error:
        return None, error.message


def _is_odd(one: TuningCandidate, baseline: EngineConfig) -> bool:
    """Whether a combination is left out: quantised matrices do not have the dtype."""
    config = one.embedded
    return (
        config is not None
        and config.weights != "checkpoint"
        and config.dtype != baseline.dtype
        and "weights" in one.choices
    )


def _identity(one: TuningCandidate) -> str:
    """Equal for candidates that compute the same."""
    config = one.embedded
    if config is not None and one.memory is not None:
        config = replace(config, dtype=one.memory.dtype)
    remote = {role: name for role, name in one.engines.items() if name != EMBEDDED}
    return repr((config, sorted(one.engines), sorted(remote.items())))
