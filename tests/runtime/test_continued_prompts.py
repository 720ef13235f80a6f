"""A generation says which answer its prompt continues, so that a report can draw the tree."""

import anyio

from agentrt import chat, program
from agentrt.analysis import RunRecord
from agentrt.analysis.report.prefix_tree import PromptBranch, prefix_tree
from agentrt.base.clock import MonotonicClock
from agentrt.runtime import Runtime
from agentrt.testing import ScriptedBackend


@program
async def review() -> str:
    draft = chat(system="Be brief.").user("Write.").generate(max_tokens=4, name="draft")
    votes = [draft.ctx.user("Good?").generate(max_tokens=4, name="vote") for _ in range(3)]
    for vote in votes:
        await vote
    return await votes[0].ctx.user("Why?").generate(max_tokens=4, name="reason")


def shape(branches: tuple[PromptBranch, ...]) -> list[object]:
    return [(one.name, one.count, shape(one.branches)) for one in branches]


def test_prompts_lie_below_the_answer_that_they_continue() -> None:
    record = RunRecord()

    async def run() -> None:
        backend = ScriptedBackend(lambda request, prompt: "y", clock=MonotonicClock())
        async with Runtime({"default": (backend, None)}, observers=[record]) as runtime:
            await runtime.run(review)

    anyio.run(run)
    assert shape(prefix_tree(record).branches) == [("draft", 1, [("vote", 3, [("reason", 1, [])])])]
