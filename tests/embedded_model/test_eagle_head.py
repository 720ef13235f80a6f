"""The trained head: what training computes is what the engine computes of the written head."""

from pathlib import Path
from typing import Any

import anyio
import pytest
import torch
from corpus.example import EMBEDDED
from eagle_head import Head
from network import MAIN
from spoken import Spoken, prompts, request_of, speak
from torch import Tensor
from train_head import Target, acceptance, loss_of, write

from agentrt import chat, program
from agentrt.analysis import RunRecord
from agentrt.app import open_runtime
from agentrt.base.clock import FakeClock
from agentrt.base.config import EngineConfig
from agentrt.engine.core import EngineCore
from agentrt.telemetry import build

DEPTH = 3


@pytest.fixture(scope="module")
def answers() -> list[Spoken]:
    asked = [one for one in prompts(3, 0, 12) if len(one) < 120][:3]
    return speak(asked)


@pytest.fixture(scope="module")
def target() -> Target:
    return Target(EMBEDDED)


@pytest.fixture(scope="module")
def head(answers: list[Spoken], target: Target) -> Head:
    """A head that knows three answers by heart."""
    torch.manual_seed(0)
    said = {token for one in answers for token in one.said}
    made = Head(MAIN, torch.tensor(sorted({*said, *range(40)})))
    made.lm_head.weight.data.copy_(target.network.model.embed_tokens.weight[made.kept])
    optimizer = torch.optim.AdamW(made.parameters(), lr=4e-3)
    lesson = target.lesson(answers, DEPTH)
    for _ in range(40):
        optimizer.zero_grad()
        torch.autograd.backward(loss_of(made, target, lesson, DEPTH))
        optimizer.step()
    with torch.no_grad():
        for parameter in made.parameters():  # as it is written
            parameter.copy_(parameter.to(torch.bfloat16))
    return made


def test_a_head_learns_to_foresee(head: Head, target: Target, answers: list[Spoken]) -> None:
    untrained = Head(MAIN, head.kept)
    length, shares = acceptance(head, target, answers, DEPTH)
    assert length > 2.0
    assert len(shares) == DEPTH
    assert acceptance(untrained, target, answers, DEPTH)[0] < 1.2


def test_the_engine_computes_what_was_trained(
    head: Head, target: Target, answers: list[Spoken], tmp_path: Path
) -> None:
    write(head, tmp_path)
    config = EngineConfig(
        EMBEDDED,
        dtype="float32",
        threads=1,
        kv_pages=64,
        speculate_tokens=DEPTH,
        draft_model=tmp_path,
    )
    core = EngineCore(config, FakeClock())
    drafts: Any = core.executor.draft_model
    forward = drafts.forward
    compared: list[int] = []

    def checked(slices: Any, open_drafts: Any) -> Tensor:
        logits: Tensor = forward(slices, open_drafts)
        for row, one in zip(logits, open_drafts, strict=False):
            end = one.computed_tokens + len(one.next_tokens())
            step = max(0, end - one.reach)
            torch.testing.assert_close(
                row[head.kept], trained(one.text[:end], step), atol=1e-3, rtol=1e-3
            )
            compared.append(step)
        return logits

    @torch.no_grad()
    def trained(text: list[int], step: int) -> Tensor:
        lesson = target.lesson([Spoken(tuple(text[:1]), tuple(text[1:]))], DEPTH)
        rows = len(text) - 1 - step
        embedded = target.embedded(lesson.tokens[:, 1 : rows + step + 1])
        states = head.steps(embedded, lesson.layers[:, :rows], lesson.first, step + 1)[step]
        found: Tensor = head.lm_head(states[0, -1])
        return found

    drafts.forward = checked
    for number, one in enumerate(answers):
        core.submit(request_of(number, one.prompt))
    while core.has_work():
        core.step()
    core.close()
    assert compared.count(0) > 3
    assert compared.count(2) > 3


def test_a_run_tells_what_the_head_drafted(head: Head, tmp_path: Path) -> None:
    """With the tokens of a run without it, at a temperature too."""
    write(head, tmp_path / "head")

    @program
    async def ask() -> list[str]:
        asked = chat().user("3+4")
        return [
            await asked.generate(max_tokens=24, temperature=heat, on_limit="close")
            for heat in (0.0, 0.8)
        ]

    async def run(**settings: Any) -> tuple[list[str], RunRecord]:
        record = RunRecord()
        engine = EngineConfig(EMBEDDED, dtype="float32", threads=1, kv_pages=64, **settings)
        async with open_runtime(
            engine=engine, observers=[record], models={}, place="thread"
        ) as runtime:
            return await runtime.run(ask), record

    plain, _ = anyio.run(run)
    with_head = {"speculate_tokens": DEPTH, "draft_model": tmp_path / "head"}
    drafted, record = anyio.run(lambda: run(**with_head))
    assert drafted == plain
    told = [name for span in build(record).spans for name in span.attributes]
    assert "agentrt.draft.eagle.accepted_tokens" in told or (
        "agentrt.draft.eagle.rejected_tokens" in told
    )
