"""The work of an arm: what it was asked for, what it computed and what it could spare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agentrt.base.record import record
from agentrt.lab.bench.compound.arm_samples import PlayedRound
from agentrt.lab.bench.compound.figures import sum_if_known


@record
class Work:
    """Counts of an arm over some plays; None if neither its client nor its engine counts.

    Attributes:
        programs: Programs.
        requests: Requests that were sent.
        given_up: Requests that a vote made needless.
        prompt_tokens: Prompt tokens of all answered requests.
        cached_tokens: Prompt tokens that were found in the cache.
        computed_tokens: Prompt tokens that were computed, also for requests that were given up if
            the engine counts them.
        output_tokens: Output tokens of all answered requests.
        forced_tokens: Output tokens that a grammar forced.
        drafted_tokens: Output tokens that were guessed and kept.
        drafts: The same by the source of the guess; {} if unknown.
        late_tokens: Prompt tokens of calls that quote others, left to compute when these had
            all ended.
        wasted_tokens: Output tokens of requests that were given up.
        steps: Steps of the engine.
        early_tools: Tools that began before their plan had ended.
        early_calls: Calls that were sent before all that they quote had ended.
        held_calls: Calls that admission control held.
    """

    programs: int
    requests: int
    given_up: int
    prompt_tokens: int | None
    cached_tokens: int | None
    computed_tokens: int | None
    output_tokens: int
    forced_tokens: int | None
    drafted_tokens: int | None
    drafts: dict[str, int]
    late_tokens: int | None
    wasted_tokens: int | None
    steps: int | None
    early_tools: int
    early_calls: int
    held_calls: int


def work_of(plays: Sequence[PlayedRound]) -> Work:
    """Sum the work of some plays."""
    samples = [sample for play in plays for sample in play.programs]
    prompt = sum_if_known([sample.prompt_tokens for sample in samples])
    cached = sum_if_known([sample.cached_tokens for sample in samples])
    computed = sum_if_known([play.computed_tokens for play in plays])
    if computed is None and prompt is not None and cached is not None:
        computed = prompt - cached
    return Work(
        programs=len(samples),
        requests=sum(sample.requests for sample in samples),
        given_up=sum(sample.given_up for sample in samples),
        prompt_tokens=prompt,
        cached_tokens=cached,
        computed_tokens=computed,
        output_tokens=sum(sum(sample.output_tokens.values()) for sample in samples),
        forced_tokens=sum_if_known([sample.forced_tokens for sample in samples]),
        drafted_tokens=sum_if_known([sample.drafted_tokens for sample in samples]),
        drafts=dict(sum((Counter(sample.drafts) for sample in samples), Counter[str]())),
        late_tokens=sum_if_known([sample.late_tokens for sample in samples]),
        wasted_tokens=sum_if_known([sample.wasted_tokens for sample in samples]),
        steps=sum_if_known([play.steps for play in plays]),
        early_tools=sum(sample.early_tools for sample in samples),
        early_calls=sum(sample.early_calls for sample in samples),
        held_calls=sum(sample.held_calls for sample in samples),
    )
