"""Programs as arrays: what each node needs and which nodes wait for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from agentrt.base.ids import RunId
from agentrt.kv_cache import PagePool, RadixTree, key_of
from agentrt.lab.sim.token_ids import PromptIds, TokenIds
from agentrt.lab.workloads import Message, Piece, ProgramTrace, ToolUse, TraceCall
from agentrt.lab.workloads.trace import TraceNode, needs, parts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_POOL_PAGES = 1 << 18


@dataclass(frozen=True, slots=True)
class ProgramLibrary:
    """Programs to draw from. Nodes of program `p` stand at `[first[p], first[p + 1])`.

    Attributes:
        shapes: Names of the kinds.
        shape: `[programs]` index of each program's kind.
        first: `[programs + 1]`.
        is_call: `[nodes]` bool; the others are tools and pauses.
        prompt_tokens: `[nodes]` length of the prompt, template included.
        fresh_tokens: `[nodes]` of it, what its program has not computed before.
        own_tokens: `[nodes]` of it, what no other program has either.
        output_tokens: `[nodes]` tokens that a step of the engine brings, one each.
        seconds: `[nodes]` of tools and pauses.
        lead_tokens: `[nodes]` of a plan's output, how many follow a tool's arguments.
        plan: `[nodes]` the node a tool's arguments come from, or its own index.
        waits_for: `[nodes]` how many nodes must end first.
        after_first: `[nodes + 1]` where a node's successors begin in `after`.
        after: `[edges]` successors.
        counts: `[nodes]` bool: its end brings the program nearer to its own.
        results: `[programs]` how many such ends are needed.
        footprint_tokens: `[programs]` KV of all that a program ever computes.
        service_tokens: `[programs]` outputs of a program, for its size.
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
    plan: Ints
    waits_for: Ints
    after_first: Ints
    after: Ints
    counts: NDArray[np.bool_]
    results: Ints
    footprint_tokens: Floats
    service_tokens: Floats

    @property
    def programs(self) -> int:
        """How many there are."""
        return len(self.shape)

    @property
    def widest(self) -> int:
        """Nodes of the largest program."""
        return int(np.max(np.diff(self.first)))


def library_of(programs: Sequence[ProgramTrace], page_tokens: int = 16) -> ProgramLibrary:
    """Arrays of programs.

    What a cache without end would know of each prompt is found by looking: all prompts go through
    a prefix tree, in order. Texts that several programs share count as computed.
    """
    tree = _Tree(page_tokens)
    tree.learn_shared(programs)  # else the first program to quote a text would pay for it
    nodes: list[dict[str, float]] = []
    after: list[list[int]] = []
    first = [0]
    results = []
    footprint = []
    for serial, program in enumerate(programs):
        base = first[-1]
        at = {node.name: base + place for place, node in enumerate(program.nodes)}
        after.extend([] for _ in program.nodes)
        found = tree.measure(program, f"run{serial}")
        quorum, least = program.quorum or ((), 0)
        ends = set(program.result) | set(quorum)
        results.append(len(ends - set(quorum)) + least)
        for node in program.nodes:
            wanted = needs(node)
            for name in wanted:
                after[at[name]].append(at[node.name])
            nodes.append(_row(node, program, at, found, len(wanted), node.name in ends))
        first.append(base + len(program.nodes))
        footprint.append(sum(one["fresh"] + one["output"] for one in nodes[base:]))
    shapes = tuple(sorted({program.shape for program in programs}))
    edges = [len(one) for one in after]
    starts = np.array(first, dtype=np.int64)
    outputs = _column(nodes, "output")
    return ProgramLibrary(
        shapes=shapes,
        shape=np.array([shapes.index(program.shape) for program in programs], dtype=np.int64),
        first=starts,
        is_call=_column(nodes, "is_call").astype(np.bool_),
        prompt_tokens=_column(nodes, "prompt"),
        fresh_tokens=_column(nodes, "fresh"),
        own_tokens=_column(nodes, "own"),
        output_tokens=outputs,
        seconds=_column(nodes, "seconds"),
        lead_tokens=_column(nodes, "lead"),
        plan=_column(nodes, "plan").astype(np.int64),
        waits_for=_column(nodes, "waits_for").astype(np.int64),
        after_first=np.concatenate(([0], np.cumsum(edges))).astype(np.int64),
        after=np.array([one for ones in after for one in ones], dtype=np.int64),
        counts=_column(nodes, "counts").astype(np.bool_),
        results=np.array(results, dtype=np.int64),
        footprint_tokens=np.array(footprint, dtype=np.float64),
        service_tokens=np.add.reduceat(outputs, starts[:-1]),
    )


def _column(nodes: Sequence[Mapping[str, float]], name: str) -> Floats:
    return np.array([node[name] for node in nodes], dtype=np.float64)


def _row(
    node: TraceNode,
    program: ProgramTrace,
    at: Mapping[str, int],
    found: Mapping[str, tuple[int, int, int]],
    waits_for: int,
    counts: bool,
) -> dict[str, float]:
    row: dict[str, float] = dict.fromkeys(
        ("is_call", "prompt", "fresh", "own", "output", "seconds", "lead"), 0.0
    )
    row |= {"plan": at[node.name], "waits_for": waits_for, "counts": counts}
    if isinstance(node, TraceCall):
        prompt, fresh, own = found[node.name]
        drawn = max(1, node.output_tokens - node.forced_tokens)
        row |= {"is_call": 1.0, "prompt": prompt, "fresh": fresh, "own": own, "output": drawn}
        return row
    row["seconds"] = node.seconds
    if isinstance(node, ToolUse) and node.plan and node.at_token:
        plan = next(one for one in program.nodes if one.name == node.plan)
        assert isinstance(plan, TraceCall)
        row["lead"] = plan.output_tokens - node.at_token
        row["plan"] = at[node.plan]
    return row


class _Tree:
    """A prefix tree without end."""

    def __init__(self, page_tokens: int) -> None:
        self._page_tokens = page_tokens
        self._ids = TokenIds()
        self._pool = PagePool(_POOL_PAGES)
        self._tree = RadixTree(self._pool, page_tokens)

    def learn_shared(self, programs: Sequence[ProgramTrace]) -> None:
        """Put what prompts of several programs begin with into it."""
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
            ids = PromptIds(self._ids, RunId("shared"), call, {}).known(frozenset())
            self._insert(ids[:-2])  # without the end of its last message and what follows

    def measure(self, program: ProgramTrace, run: str) -> dict[str, tuple[int, int, int]]:
        """Of each call: its prompt, what is new of it, what no other program has of it."""
        whole = {name: ids for name, ids, _ in self._prompts(program, run)}
        own = {
            name: len(ids) - self._tree.matched_tokens(key_of(ids)) for name, ids in whole.items()
        }
        return {
            name: (len(whole[name]), len(whole[name]) - matched, own[name])
            for name, matched in self._walk(program, run)
        }

    def _prompts(
        self, program: ProgramTrace, run: str
    ) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
        run_id = RunId(run)
        outputs = {call.name: call.output_tokens for call in program.calls()}
        ended = {node.name for node in program.nodes}
        found = []
        for call in program.calls():
            ids = PromptIds(self._ids, run_id, call, outputs).known(ended)
            output = self._ids.output(run_id, call.name, call.output_tokens)
            found.append((call.name, ids, tuple(output)))
        return found

    def _walk(self, program: ProgramTrace, run: str) -> list[tuple[str, int]]:
        found = [
            (name, self._insert((*prompt, *output), len(prompt)))
            for name, prompt, output in self._prompts(program, run)
        ]
        self._ids.forget(RunId(run), program)
        return found

    def _insert(self, whole: tuple[int, ...], prompt_tokens: int = 0) -> int:
        """Put ids into it; how many of the first `prompt_tokens` it had."""
        size = self._page_tokens
        match = self._tree.match_prefix(key_of(whole[: prompt_tokens or len(whole)]))
        self._tree.lock(match.node)
        pages = len(whole) // size
        more = pages - len(match.pages)
        if more > self._pool.free_pages:
            self._tree.evict(more)
        taken = self._pool.allocate(max(0, more))
        self._tree.insert(key_of(whole[: pages * size]), [*match.pages, *taken])
        self._tree.unlock(match.node)
        return match.matched_tokens


def _beginning(call: TraceCall, shared: Collection[str]) -> TraceCall | None:
    """A call whose prompt is what this one begins with, as far as it is made of shared texts."""
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
