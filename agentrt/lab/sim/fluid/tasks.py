"""Generations in progress: the remaining tokens of each, and its rate."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from agentrt.analysis.statistics import Floats
from agentrt.lab.sim.costs import SimCosts
from agentrt.lab.sim.fluid.library import Ints
from agentrt.lab.sim.simulation import Setup

Flags = NDArray[np.bool_]

_NOTHING = 1e-6
"""Tokens that rounding leaves."""


@dataclass(slots=True, eq=False)
class NodeRows:
    """A table of nodes of programs in progress; all columns are `[rows]`.

    Attributes:
        slot: Slot of the program.
        node: Index of the node in the library.
    """

    slot: Ints
    node: Ints

    def __len__(self) -> int:
        return len(self.slot)

    def where(self, kept: Flags | Ints) -> Self:
        """The rows with these flags or indices."""
        return type(self)(*(getattr(self, column.name)[kept] for column in fields(self)))

    def followed_by(self, more: Self) -> Self:
        """These rows, then the others."""
        columns = [(getattr(self, one.name), getattr(more, one.name)) for one in fields(self)]
        return type(self)(*map(np.concatenate, columns))


@dataclass(slots=True, eq=False)
class FluidTasks(NodeRows):
    """Generations in progress, the oldest first.

    Attributes:
        engine: Engine that serves the generation.
        since_s: Instant up to which its progress is computed.
        prefill: Prompt tokens left to compute.
        decode: Output tokens left, without the first, which comes with the prompt.
        context: Tokens whose KV is there.
        runs: True if it is in the batch.
        chunk: Prompt tokens of the task in the latest step of its engine.
        left: Prompt tokens of that step that are not computed yet.
    """

    engine: Ints
    since_s: Floats
    prefill: Floats
    decode: Floats
    context: Floats
    runs: Flags
    chunk: Floats
    left: Floats

    @classmethod
    def none(cls) -> FluidTasks:
        """An empty table."""
        whole, real = np.zeros(0, np.int64), np.zeros(0)
        return cls(whole, whole, whole, real, real, real, real, np.zeros(0, np.bool_), real, real)


@dataclass(frozen=True, slots=True)
class FluidRates:
    """Rates of all tasks during a tick.

    Attributes:
        step_s: `[engines]` length of a step, on average over the tick.
        closed: `[engines]` bool: the current step lasts longer than the tick and admits no request.
        chunk: `[tasks]` prompt tokens of each in a step.
        left: `[tasks]` prompt tokens of that step that are not computed yet.
        prompt_step_s: `[tasks]` length of a step that computes some of a task's prompt.
        token_step_s: `[tasks]` length of a step that computes none of it.
    """

    step_s: Floats
    closed: Flags
    chunk: Floats
    left: Floats
    prompt_step_s: Floats
    token_step_s: Floats


def rates_of(tasks: FluidTasks, setup: Setup, tick_s: float) -> FluidRates:
    """The rates of every engine with these tasks.

    Prompts get chunks in their order while the token budget of a step lasts. A step that computes
    prompts keeps its batch until it ends: later requests neither join it nor make it longer. A
    prompt that ends within the tick counts for its part of the tick alone.
    """
    costs, engines = setup.costs, setup.engines
    prefills = tasks.runs & (tasks.prefill > 0)
    decodes = tasks.runs & ~prefills
    decoding = np.bincount(tasks.engine[decodes], minlength=engines).astype(np.float64)
    held = np.where(prefills & (tasks.left > _NOTHING), tasks.chunk, 0.0)
    closed = np.zeros(engines, dtype=np.bool_)
    if held.any():
        closed = _last(tasks, costs, held, decodes, decoding) > tick_s
    here = closed[tasks.engine]
    chunk = _chunks(tasks, prefills, setup.step_tokens - decoding, setup.prefill_chunk_tokens)
    chunk = np.where(here, held, chunk)
    left = np.where(here & (held > 0), tasks.left, chunk)
    base_s, own_s = _parts(tasks, costs, chunk, decodes, decoding)
    served = chunk > 0
    step_s = base_s + sums(tasks.engine, own_s, engines)
    steps_left = np.divide(tasks.prefill, chunk, out=np.zeros(len(tasks)), where=served)
    part = np.zeros(len(tasks))
    for _ in range(2):
        part = np.minimum(1.0, steps_left * step_s[tasks.engine] / tick_s)
        step_s = base_s + sums(tasks.engine, own_s * part, engines)
    here_s = step_s[tasks.engine]
    prompt_step_s, token_step_s = here_s + own_s * (1 - part), here_s - own_s * part
    return FluidRates(step_s, closed, chunk, left, prompt_step_s, token_step_s)


def _last(
    tasks: FluidTasks, costs: SimCosts, held: Floats, decodes: Flags, decoding: Floats
) -> Floats:
    """`[engines]` remaining time of the current steps, which compute `held` `[tasks]`."""
    base_s, own_s = _parts(tasks, costs, held, decodes, decoding)
    step_s = base_s + sums(tasks.engine, own_s, len(base_s))
    part = np.divide(tasks.left, held, out=np.zeros(len(tasks)), where=held > 0)
    rest = np.zeros(len(base_s))
    np.maximum.at(rest, tasks.engine, part)
    return rest * step_s


def _parts(
    tasks: FluidTasks, costs: SimCosts, chunk: Floats, decodes: Flags, decoding: Floats
) -> tuple[Floats, Floats]:
    """Seconds of a step with these shares: `[engines]` for all, `[tasks]` for a prompt."""
    step = costs.step
    served = chunk > 0
    reads = np.where(decodes | served, tasks.context + chunk, 0.0)
    kv_tokens = sums(tasks.engine, reads, len(decoding))
    base_s = step.base_s + step.decode_s * decoding + step.kv_s * kv_tokens
    own_s = np.where(served, step.prefill_s * chunk, 0.0)
    own_s += costs.pair_s * chunk * (tasks.context + chunk / 2)
    own_s += np.where(served & (chunk >= tasks.prefill), step.decode_s, 0.0)
    return base_s, own_s


def _chunks(tasks: FluidTasks, prefills: Flags, budget: Floats, chunk_tokens: int) -> Floats:
    """Prompt tokens of each task in a step; `budget` `[engines]`."""
    chunk = np.zeros(len(tasks))
    at = np.flatnonzero(prefills)
    if not len(at):
        return chunk
    at = at[np.argsort(tasks.engine[at], kind="stable")]
    wanted = np.minimum(tasks.prefill[at], chunk_tokens)
    chunk[at] = np.clip(
        budget[tasks.engine[at]] - before_in_group(tasks.engine[at], wanted), 0, wanted
    )
    return chunk


def sums(group: Ints, values: Floats, groups: int) -> Floats:
    """`[groups]` sum of the values of each group."""
    return np.bincount(group, weights=values, minlength=groups).astype(np.float64)


def before_in_group(group: Ints, values: Floats) -> Floats:
    """Sum of the values before each one in its group; `group` is sorted."""
    before = np.cumsum(values) - values
    starts = np.flatnonzero(np.concatenate(([True], group[1:] != group[:-1])))
    sizes = np.diff(np.concatenate((starts, [len(group)])))
    return before - np.repeat(before[starts], sizes)


def move_on(tasks: FluidTasks, rates: FluidRates, until_s: float) -> Floats:
    """Advance all running tasks to `until_s`; returns `[tasks]` ends, infinite for those left.

    A task outside the batch, or without a chunk in the step, waits.
    """
    step_s, token_s = rates.prompt_step_s, rates.token_step_s
    room_s = np.maximum(0.0, until_s - tasks.since_s)
    prefills = tasks.prefill > 0
    goes = tasks.runs & (~prefills | (rates.chunk > 0))
    chunk = np.where(rates.chunk > 0, rates.chunk, 1.0)
    prompt_s = np.where(goes & prefills, tasks.prefill * step_s / chunk, 0.0)
    used_s = np.minimum(room_s, prompt_s)
    done = goes & (prompt_s <= room_s)
    computed = np.where(goes & prefills, used_s / step_s * chunk, 0.0)
    computed = np.where(done, tasks.prefill, np.minimum(computed, tasks.prefill))
    left_s = np.where(done, room_s - prompt_s, 0.0)
    drawn = np.minimum(tasks.decode, left_s / token_s)
    ends = done & (tasks.decode * token_s <= left_s)
    ended_s = np.where(ends, tasks.since_s + prompt_s + tasks.decode * token_s, np.inf)
    tasks.prefill = tasks.prefill - computed
    tasks.chunk, tasks.left = rates.chunk, np.maximum(0.0, rates.left - computed)
    tasks.decode = tasks.decode - drawn
    tasks.context = tasks.context + computed + drawn
    tasks.since_s = np.maximum(tasks.since_s, until_s)
    return ended_s
