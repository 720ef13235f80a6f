"""Programs as arrays: work, inputs and successors of each node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from agentrt.analysis.statistics import Floats
from agentrt.base.ids import RunId
from agentrt.kv_cache import PagePool, RadixTree, key_of
from agentrt.lab.sim.token_ids import TokenIds
from agentrt.lab.workloads import Message, Piece, ProgramTrace, ToolUse, TraceCall
from agentrt.lab.workloads.trace import TraceNode, needs, parts

Ints = NDArray[np.int64]

_POOL_PAGES = 1 << 21


@dataclass(frozen=True, slots=True)
class ProgramLibrary:
    """Programs to draw from. Nodes of program `p` have the indices `[first[p], first[p + 1])`.

    Attributes:
        shapes: Names of the shapes.
        shape: `[programs]` index of each program's shape.
        first: `[programs + 1]` index of each program's first node.
        is_call: `[nodes]` bool; the others are tools and pauses.
        prompt_tokens: `[nodes]` length of the prompt, template included.
        fresh_tokens: `[nodes]` prompt tokens that its program has not computed before.
        own_tokens: `[nodes]` prompt tokens that no other program has computed either.
        output_tokens: `[nodes]` output tokens that take a step each.
        seconds: `[nodes]` duration of tools and pauses.
        lead_tokens: `[nodes]` tokens of the plan's output after the arguments of a tool.
        waits_for: `[nodes]` number of nodes that must end first.
        after_first: `[nodes + 1]` index of a node's first successor in `after`.
        after: `[edges]` successors.
        counts: `[nodes]` bool: the program waits for its end.
        results: `[programs]` number of such ends that end the program.
        footprint_tokens: `[programs]` KV tokens of all that a program computes.
        service_tokens: `[programs]` output tokens of a program, for its size.
    """

    shapes: tuple[str, ...]
    shape: Ints
    first: Ints
    is_call: NDArray[np.bool_]
    prompt_tokens: Floats
    fresh_tokens: Floats
    own_tokens: Floats
    output_tokens: Floats
    seconds: Floats
    lead_tokens: Floats
    waits_for: Ints
    after_first: Ints
    after: Ints
    counts: NDArray[np.bool_]
    results: Ints
    footprint_tokens: Floats
    service_tokens: Floats

    @property
    def programs(self) -> int:
        """Number of programs."""
        return len(self.shape)

    @property
    def widest(self) -> int:
        """Nodes of the largest program."""
        return int(np.max(np.diff(self.first)))


def library_of(programs: Sequence[ProgramTrace]) -> ProgramLibrary:
    """Arrays of programs.

    All prompts go through a prefix tree without a limit, in order, which gives the tokens that a
    cache would hold. Texts that several programs share count as computed.
    """
    tree = _Tree()
    tree.learn_shared(programs)  # else the first program with a text would pay for it
    first = np.concatenate(([0], np.cumsum([len(program.nodes) for program in programs])))
    after: list[list[int]] = [[] for _ in range(first[-1])]
    rows = []
    results = []
    for serial, program in enumerate(programs):
        at = {node.name: int(first[serial]) + offset for offset, node in enumerate(program.nodes)}
        prompts = tree.measure(program, RunId(f"run{serial}"))
        quorum, least = program.quorum or ((), 0)
        ends = set(program.result) | set(quorum)
        results.append(len(ends - set(quorum)) + least)
        for node in program.nodes:
            wanted = needs(node)
            for name in wanted:
                after[at[name]].append(at[node.name])
            rows.append((*_row(node, program, prompts), len(wanted), node.name in ends))
    is_call, prompt, fresh, own, output, seconds, lead, waits_for, counts = np.array(
        rows, dtype=np.float64
    ).T.copy()
    shapes = tuple(sorted({program.shape for program in programs}))
    edges = [len(one) for one in after]
    return ProgramLibrary(
        shapes=shapes,
        shape=np.array([shapes.index(program.shape) for program in programs], dtype=np.int64),
        first=first,
        is_call=is_call.astype(np.bool_),
        prompt_tokens=prompt,
        fresh_tokens=fresh,
        own_tokens=own,
        output_tokens=output,
        seconds=seconds,
        lead_tokens=lead,
        waits_for=waits_for.astype(np.int64),
        after_first=np.concatenate(([0], np.cumsum(edges))).astype(np.int64),
        after=np.array([one for ones in after for one in ones], dtype=np.int64),
        counts=counts.astype(np.bool_),
        results=np.array(results, dtype=np.int64),
        footprint_tokens=np.add.reduceat(fresh + output, first[:-1]),
        service_tokens=np.add.reduceat(output, first[:-1]),
    )


def _row(
    node: TraceNode, program: ProgramTrace, prompts: Mapping[str, tuple[int, int, int]]
) -> tuple[float, ...]:
    """The columns of a node from `is_call` to `lead_tokens`."""
    if isinstance(node, TraceCall):
        drawn = max(1, node.output_tokens - node.forced_tokens)
        return (1, *prompts[node.name], drawn, 0.0, 0)
    lead = 0
    if isinstance(node, ToolUse) and node.plan and node.at_token:
        plan = next(one for one in program.calls() if one.name == node.plan)
        lead = plan.output_tokens - node.at_token
    return (0, 0, 0, 0, 0, node.seconds, lead)


class _Tree:
    """A prefix tree without a limit; a token a page, since engines share by the token."""

    def __init__(self) -> None:
        self._ids = TokenIds()
        self._pool = PagePool(_POOL_PAGES)
        self._tree = RadixTree(self._pool, page_tokens=1)

    def learn_shared(self, programs: Sequence[ProgramTrace]) -> None:
        """Insert the beginnings that prompts of several programs share."""
        users = Counter(
            key
            for program in programs
            for key in {
                part.key
                for call in program.calls()
                for part in parts(call)
                if isinstance(part, Piece)
            }
        )
        shared = {key for key, count in users.items() if count > 1}
        begun = {_beginning(call, shared) for program in programs for call in program.calls()}
        for call in begun - {None}:
            assert call is not None
            ids = self._ids.prompt(RunId("shared"), call, {})
            self._insert(ids[:-2])  # without the end of its last message and the next header

    def measure(self, program: ProgramTrace, run_id: RunId) -> dict[str, tuple[int, int, int]]:
        """Tokens of each call's prompt: all, new to the program, and new to every program."""
        outputs = {call.name: call.output_tokens for call in program.calls()}
        prompts = {call.name: self._ids.prompt(run_id, call, outputs) for call in program.calls()}
        known = {name: self._tree.matched_tokens(key_of(ids)) for name, ids in prompts.items()}
        found = {}
        for name, ids in prompts.items():
            output = self._ids.output(run_id, name, outputs[name])
            matched = self._insert((*ids, *output), len(ids))
            found[name] = (len(ids), len(ids) - matched, len(ids) - known[name])
        self._ids.forget(run_id)
        return found

    def _insert(self, whole: tuple[int, ...], prompt_tokens: int = 0) -> int:
        """Insert ids; returns the matched tokens of the first `prompt_tokens` (0: of all)."""
        match = self._tree.match_prefix(key_of(whole[: prompt_tokens or len(whole)]))
        self._tree.lock(match.node)
        more = len(whole) - len(match.pages)
        if more > self._pool.free_pages:
            self._tree.evict(more)
        taken = self._pool.allocate(max(0, more))
        self._tree.insert(key_of(whole), [*match.pages, *taken])
        self._tree.unlock(match.node)
        return match.matched_tokens


def _beginning(call: TraceCall, shared: Collection[str]) -> TraceCall | None:
    """A call with the beginning of this prompt that consists of shared texts; None without one."""
    messages: list[Message] = []
    for role, message in call.prompt:
        kept = tuple(
            takewhile(lambda part: isinstance(part, Piece) and part.key in shared, message)
        )
        if kept:
            messages.append((role, kept))
        if len(kept) < len(message):
            break
    return TraceCall("begin", tuple(messages), 1, site="begin") if messages else None
