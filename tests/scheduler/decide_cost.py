"""What one decision costs: `python tests/scheduler/decide_cost.py [--plot FILE.svg]`.

A table of up to a hundred programs, between them 100 to 10,000 nodes that have not ended: most with
a request at their engine, some waiting for an input, some tools under way or waiting for a thread.
Then the loop's turn: one batch of facts (a generation ends, the program declares the next one and
waits for it) is applied and decided about; the figures are medians of what `apply` and `decide`
take together, and `decide` alone. Beside them one decision in which every node is ready at once.
"""

import argparse
import gc
import math
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from agentrt.analysis.plot import PlotLine, lines
from agentrt.base.ids import NodeId, RunId
from agentrt.protocol.events import (
    NodeDeclared,
    NodeDemanded,
    NodeFinished,
    NodeKind,
    RequestSent,
    RunStarted,
    ToolStarted,
)
from agentrt.protocol.step_output import Ledger
from agentrt.scheduler import Decision, InternalEvent, Send, Start, State, apply, decide

SIZES = (100, 300, 1000, 3000, 10_000)
PROGRAMS = 100
TURNS = 400


class Table:
    """A process table of a given size, and turns of the loop on it."""

    def __init__(self, nodes: int) -> None:
        self.state = State(incomplete_roles=("default",), max_threads=8)
        self.now_s = 0.0
        self.serial = 0
        self.running: list[tuple[RunId, NodeId]] = []
        self.runs = [RunId(f"{number:016x}") for number in range(min(PROGRAMS, nodes // 10))]
        for run_id in self.runs:
            self.take(RunStarted(run_id, "p", "p.py:p", 0.0, 0, tenant=f"t{run_id[-1]}"))
            self.take(self.declared(run_id, "r", "program", parent=None))
            self.take(NodeDemanded(run_id, NodeId("r"), 0.0))
        while self.live < nodes:
            run_id = self.runs[self.live % len(self.runs)]
            first = self.declare(run_id)
            if self.live % 10 == 0:
                for _ in range(2):
                    first = self.declare(run_id, deps=(first,))
            if self.live % 10 == 5:
                self.declare(run_id, kind="tool", threaded=True)
        self.turn()

    @property
    def live(self) -> int:
        """Nodes that have not ended."""
        return self.state.declared_count - self.state.ended_count

    def take(self, fact: InternalEvent) -> None:
        apply(self.state, fact)

    def declared(
        self,
        run_id: RunId,
        name: str,
        kind: NodeKind,
        *,
        parent: str | None = "r",
        deps: tuple[NodeId, ...] = (),
        threaded: bool = False,
    ) -> NodeDeclared:
        return NodeDeclared(
            run_id,
            NodeId(name),
            kind,
            kind,
            NodeId(parent) if parent is not None else None,
            deps,
            f"p.py:{self.serial % 9}",
            self.now_s,
            model="default" if kind == "generate" else "",
            threaded=threaded,
        )

    def declare(
        self,
        run_id: RunId,
        kind: NodeKind = "generate",
        deps: tuple[NodeId, ...] = (),
        *,
        threaded: bool = False,
    ) -> NodeId:
        self.serial += 1
        event = self.declared(run_id, f"r/{self.serial}", kind, deps=deps, threaded=threaded)
        self.take(event)
        return event.node_id

    def perform(self, decision: Decision) -> None:
        if isinstance(decision, Send):
            sent = RequestSent(
                decision.run_id,
                decision.node_id,
                decision.info.request_id,
                "s",
                "m",
                True,
                self.now_s,
            )
            self.take(sent)
            self.running.append((decision.run_id, decision.node_id))
        elif isinstance(decision, Start) and decision.node_id != "r":
            self.take(ToolStarted(decision.run_id, decision.node_id, 0, self.now_s))
        self.take(decision)

    def turn(self) -> float:
        """Decide until nothing is left to do; seconds that `decide` took."""
        took_s = 0.0
        while True:
            before_s = time.perf_counter()
            decisions = decide(self.state, self.now_s)
            took_s += time.perf_counter() - before_s
            if not decisions:
                return took_s
            for decision in decisions:
                self.perform(decision)

    def step(self) -> tuple[float, float]:
        """One turn of the loop: seconds of all of it, and of `decide` alone."""
        self.now_s += 0.01
        run_id, node_id = self.running.pop(len(self.running) // 2)
        ledger = Ledger(decode_s=1.0, output_tokens=50, steps=50, batch_size_sum=400)
        before_s = time.perf_counter()
        self.take(NodeFinished(run_id, node_id, "ok", self.now_s, ledger=ledger))
        following = self.declare(run_id)
        self.take(NodeDemanded(run_id, following, self.now_s))
        decide_s = self.turn()
        return time.perf_counter() - before_s, decide_s


def burst_s(nodes: int) -> float:
    """Seconds that one decision takes in which every node has become ready."""
    table = Table(10 * min(PROGRAMS, nodes // 10))
    for number in range(nodes):
        table.declare(table.runs[number % len(table.runs)])
    gc.collect()
    gc.disable()  # what it costs to look through all objects is not the decision's
    before_s = time.perf_counter()
    decisions = decide(table.state, 1.0)
    took_s = time.perf_counter() - before_s
    gc.enable()
    assert len(decisions) == nodes
    return took_s


def middle(measure: Callable[[], tuple[float, float]], times: int) -> tuple[float, float]:
    found = [measure() for _ in range(times)]
    return median(whole for whole, _ in found), median(alone for _, alone in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", type=Path, help="write the costs over the number of nodes there")
    given = parser.parse_args()
    print("  nodes  turn us  decide us  all at once ms  us a node  / log2 n")
    rows: list[tuple[int, float, float, float]] = []
    for nodes in SIZES:
        table = Table(nodes)
        whole_s, alone_s = middle(table.step, TURNS)
        once_s = min(burst_s(nodes) for _ in range(5))
        rows.append((nodes, whole_s, alone_s, once_s))
        each_us = once_s / nodes * 1e6
        print(
            f"{nodes:7} {whole_s * 1e6:8.1f} {alone_s * 1e6:10.1f} {once_s * 1e3:15.2f} "
            f"{each_us:10.2f} {each_us / math.log2(nodes):9.3f}"
        )
    if given.plot is not None:
        given.plot.parent.mkdir(parents=True, exist_ok=True)
        given.plot.write_text(svg(rows))
        print(f"plot: {given.plot}")


def svg(rows: list[tuple[int, float, float, float]]) -> str:
    """Both axes logarithmic; the dashed line grows as n log n from the first burst."""
    first, _, _, once_s = rows[0]
    ideal = [once_s * n * math.log(n) / (first * math.log(first)) for n, *_ in rows]

    def of(name: str, seconds: list[float], *, dashed: bool = False) -> PlotLine:
        points = [(float(n), s * 1e6) for (n, *_), s in zip(rows, seconds, strict=True)]
        return PlotLine(name, tuple(points), dashed=dashed)

    series = [
        of("a turn of the loop", [row[1] for row in rows]),
        of("decide in it", [row[2] for row in rows]),
        of("all nodes at once", [row[3] for row in rows]),
        of("n log n", ideal, dashed=True),
    ]
    title = f"Cost of a decision, nodes of up to {PROGRAMS} programs"
    return lines(title, series, x="live nodes", y="us", log_x=True, log_y=True)


if __name__ == "__main__":
    main()
