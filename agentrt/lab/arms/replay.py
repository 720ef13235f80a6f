"""A recorded program in the language of agentrt: same runtime and scheduler as any other program.

A call is declared as soon as all that it quotes is declared, with holes for pending outputs, as an
author would write it. A tool starts once its plan has as many tokens as its arguments take, as a
streamed plan would start it. Lengths are forced, by a grammar if the output has a form.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import anyio

from agentrt.lab.arms.score import PartKey, ProgramScore, Scored, ScoredCall, ScoredWait
from agentrt.lab.workloads.chat_tree import ChatTree
from agentrt.program import Gen, GenOptions, Node, Program, cfg, gather, program, race, tool
from agentrt.program.arrivals import Arrivals


@tool(effects="read")
async def wait(seconds: float, text: str) -> str:
    """Take as long as a recorded tool took, and answer the same."""
    await anyio.sleep(seconds)
    return text


class Play:
    """One program while it is played.

    Args:
        score: The program.

    Attributes:
        nodes: Declared nodes by name.
        given_up: Calls that a vote made needless.
    """

    def __init__(self, score: ProgramScore) -> None:
        self.score = score
        self.nodes: dict[str, Node[str]] = {}
        self.given_up: list[str] = []
        self._tree: ChatTree[PartKey] = ChatTree()
        self._pending: list[Scored] = list(score.nodes)

    async def run(self) -> None:
        """Play it to its end."""
        while self._declare():
            await self._progress()
        await self._vote()
        await gather(*(self.nodes[name] for name in self.score.result))

    def _declare(self) -> bool:
        """Declare what may begin now; True if any node is left."""
        left = []
        for scored in self._pending:
            if not self._may_begin(scored):
                left.append(scored)
            elif isinstance(scored, ScoredCall):
                self.nodes[scored.name] = self._call(scored)
            else:
                self.nodes[scored.name] = wait(scored.seconds, scored.text)
        self._pending = left
        return bool(left)

    def _may_begin(self, scored: Scored) -> bool:
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
        """Wait until another node may be declared: for tokens of a plan, or the end of a node."""
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
        """Read a plan until one more tool may begin."""
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
        kind, text = key
        return text if kind == "text" else self.nodes[text]


@lru_cache(maxsize=64)
def program_of(shape: str) -> Program[[Play], None]:
    """The program that plays a shape: estimates learned of one shape do not apply to another."""

    async def played(play: Play) -> None:
        await play.run()

    played.__name__ = shape.replace("-", "_")
    return program(played)
