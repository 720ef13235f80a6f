"""A recorded program as a program of ours: the same language, runtime and scheduler as any other.

Calls are declared as soon as all that they quote is declared, with holes for what is pending, as an
author of the language would write it. A tool starts when its plan has as many tokens as its
arguments take, as a streamed plan would start it. Lengths are forced, by a grammar where the output
has a form; tools sleep.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import anyio

from agentrt.lab.arms.score import PartKey, ProgramScore, ScoredCall, ScoredWait
from agentrt.lab.workloads.chat_tree import ChatTree
from agentrt.program import Gen, GenOptions, Node, Program, cfg, gather, program, race, tool
from agentrt.program.arrivals import Arrivals


@tool(effects="read")
async def wait(seconds: float, text: str) -> str:
    """Take as long as a tool took, and answer what it answered."""
    await anyio.sleep(seconds)
    return text


class Play:
    """One program while it is played.

    Args:
        score: What is played.

    Attributes:
        nodes: By name, those that were declared.
        given_up: Calls that a vote made needless.
    """

    def __init__(self, score: ProgramScore) -> None:
        self.score = score
        self.nodes: dict[str, Node[str]] = {}
        self.given_up: list[str] = []
        self._tree: ChatTree[PartKey] = ChatTree()
        self._pending = list(score.nodes)

    async def run(self) -> None:
        """Play it to its end: what the program's own code does."""
        while self._declare():
            await self._progress()
        await self._vote()
        await gather(*(self.nodes[name] for name in self.score.result))

    def _declare(self) -> bool:
        """Declare whatever may be by now; whether anything is left."""
        left = []
        for scored in self._pending:
            if not self._may_begin(scored):
                left.append(scored)
            elif isinstance(scored, ScoredCall):
                self.nodes[scored.line["name"]] = self._call(scored)
            else:
                self.nodes[scored.name] = wait(scored.seconds, scored.text)
        self._pending = left
        return bool(left)

    def _may_begin(self, scored: ScoredCall | ScoredWait) -> bool:
        nodes = self.nodes
        if not all(name in nodes and nodes[name].done for name in scored.after):
            return False
        if isinstance(scored, ScoredCall):
            return all(name in nodes for name in scored.quoted)
        if not scored.at_token:
            return True
        plan = nodes.get(scored.plan)
        return isinstance(plan, Gen) and (plan.done or plan.produced_tokens >= scored.at_token)

    async def _progress(self) -> None:
        """Wait until something more may be declared: more of a plan, or the end of a node."""
        for scored in self._pending:
            if isinstance(scored, ScoredWait) and scored.at_token:
                plan = self.nodes.get(scored.plan)
                if isinstance(plan, Gen) and not plan.done:
                    await self._read(plan)
                    return
        names = {name for scored in self._pending for name in scored.after}
        blocking = [self.nodes[name] for name in names if name in self.nodes]
        arrivals = Arrivals([node for node in blocking if not node.done])
        try:
            await arrivals.next()
        finally:
            arrivals.close()

    async def _read(self, plan: Gen[Any]) -> None:
        """Read a plan along until one more tool may begin."""
        marks = [
            scored.at_token
            for scored in self._pending
            if isinstance(scored, ScoredWait) and self.nodes.get(scored.plan) is plan
        ]
        async for _ in plan.stream():
            if plan.produced_tokens >= min(marks):
                return

    async def _vote(self) -> None:
        names, least = self.score.quorum
        if not names:
            return
        async with race([self.nodes[name] for name in names]) as finished:
            ended = 0
            async for _ in finished:
                ended += 1
                if ended == least:
                    break
        given_up = set(finished.cancelled)
        self.given_up = [name for name in names if self.nodes[name] in given_up]

    def _call(self, scored: ScoredCall) -> Gen[str]:
        line = scored.line
        options: GenOptions = {"max_tokens": line["tokens"], "name": line["site"]}
        prompt = self._tree.find(scored.messages, self._part)
        if "pattern" in line:  # which ends by itself
            form = cfg(f"start: /{line['pattern']}/")
            return prompt.generate(form, **options)
        options["ignore_eos"] = True
        if "seed" in line:
            # The tokens of greedy arms; the seed keeps samples from being computed once.
            options |= {"temperature": 1.0, "top_k": 1, "seed": line["seed"]}
        return prompt.generate(**options)

    def _part(self, key: PartKey) -> str | Node[str]:
        kind, told = key
        return told if kind == "text" else self.nodes[told]


@lru_cache(maxsize=64)
def program_of(shape: str) -> Program[[Play], None]:
    """The program that plays a shape; what is learned of one shape is not told of another."""

    async def played(play: Play) -> None:
        await play.run()

    played.__name__ = shape.replace("-", "_")
    return program(played)
