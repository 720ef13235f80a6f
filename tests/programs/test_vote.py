"""The vote ends as soon as nobody can catch up, and says why where nobody voted."""

from collections.abc import Iterable

import pytest
import vote

from agentrt.base.errors import EngineDied
from agentrt.runtime import Runtime
from agentrt.testing import LoopClock, Reply, ScriptedBackend, run_virtual


def ask(answers: Iterable[str | Reply], n: int) -> int:
    async def main() -> int:
        clock = LoopClock()
        backend = ScriptedBackend(answers, clock=clock)
        async with Runtime({"default": (backend, None)}, clock=clock) as runtime:
            return await runtime.run(vote.vote, "What is 1 + 1?", n)

    return run_virtual(main)


def solution(answer: int) -> str:
    return f'{{"reasoning":"so","answer":{answer}}}'


def test_who_fails_has_no_vote():
    failed = Reply("", error=EngineDied("the engine is gone"))
    assert ask([failed, solution(3), failed, solution(2), solution(2)], 5) == 2


def test_where_all_fail_the_vote_fails_as_they_did():
    failed = Reply("", error=EngineDied("the engine is gone"))
    with pytest.raises(EngineDied, match="the engine is gone"):
        ask([failed] * 3, 3)
