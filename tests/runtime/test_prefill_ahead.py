"""Prompts computed ahead, where past runs say what comes next; off unless it is asked for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.lowlevel
import pytest
from anyio.from_thread import start_blocking_portal

from agentrt import ask, chat, embedded, gather, program, tool
from agentrt.analysis.run_record import RunRecord
from agentrt.analysis.saved_work import SavedWork, saved_work
from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig, RunConfig, SchedulerConfig
from agentrt.protocol.events import NodeFinished, Scheduled
from agentrt.protocol.step_output import StepDone
from agentrt.runtime import RunOptions

pytestmark = pytest.mark.model
PLAN = chat(system="You plan a search. Answer with a query.")
WRITE = chat(
    system="You write short reports. Use only the passage, name its source at the end, and say "
    "which part of the question it leaves open. Do not repeat the question."
)
QUESTIONS = [
    f"{thing} of the old town on the river: what is there to know about it, and who wrote it down? "
    "Name the year in which it was built, the one in which it burned, and what became of it since."
    for thing in ("Mill", "Bridge", "Tower", "Gate", "Market", "Garden")
]


SEEN: list["Recorder"] = []
"""What is seen of the runs under way."""


async def idle() -> None:
    """Wait until the engine has computed what is expected; what it waits for is sent at once."""
    for _ in range(10):
        await anyio.lowlevel.checkpoint()
    for one in SEEN:
        while one.expected > one.computed:
            one.changed = anyio.Event()
            await one.changed.wait()


@tool(effects="read")
async def search(query: str) -> str:
    """Searches, and takes its time."""
    await idle()
    return f"found {query[::-1]}"


@program
async def report(question: str, style: str = "plain") -> str:
    await PLAN.user(question).generate(max_tokens=4, name="plan")
    found = await search(question)
    write = WRITE if style == "plain" else chat(system=style)
    asked = write.user(f"The question was: {question}\n", "Passage: ", found, "\nWrite.")
    return await asked.generate(max_tokens=6, name="write")


class Rig:
    """An engine in a thread of the test's process, and what it computed for the last run."""

    def __init__(self, portal: Any, runtime: Any, recorder: Any, close_all: Any) -> None:
        self._portal, self._runtime, self._recorder = portal, runtime, recorder
        self.close_all = close_all

    def run(self, body: Any, *args: Any, **options: Any) -> Any:
        self._recorder.events.clear()
        SEEN[:] = [self._recorder]
        runtime = self._runtime.with_options(RunOptions(**options))
        result = self._portal.call(runtime.run, body, *args)
        self._portal.call(idle)  # no end of this run is seen in the next one
        return result

    def left(self, name: str) -> int:
        """Prompt tokens that were left to compute when a generation was sent."""
        (ledger,) = [
            event.ledger
            for event in self._recorder.events
            if isinstance(event, NodeFinished) and f"/{name}#" in event.node_id
        ]
        assert ledger is not None
        return int(ledger.prompt_tokens - ledger.cached_tokens)

    @property
    def saved(self) -> SavedWork:
        record = RunRecord()
        record.on_events(self._recorder.events)
        return saved_work(record)


class Recorder:
    def __init__(self) -> None:
        self.events: list[Any] = []
        self.changed: anyio.Event | None = None

    def on_events(self, events: Any) -> None:
        self.events += events
        if self.changed is not None:
            self.changed.set()

    @property
    def expected(self) -> int:
        """Prompts that were sent ahead."""
        terms = [dict(e.terms) for e in self.events if isinstance(e, Scheduled)]
        return sum("expected_tokens" in one for one in terms)

    @property
    def computed(self) -> int:
        """Those that have ended."""
        steps = [event for event in self.events if isinstance(event, StepDone)]
        return sum(end.request_id < 0 for step in steps for end in step.ends)


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    """Opens engines, with or without."""
    with start_blocking_portal() as portal:
        stack: list[Any] = []

        def close_rigs() -> None:
            while stack:
                stack.pop().__exit__(None, None, None)

        def open_rig(*, on: bool = True) -> Rig:
            recorder = Recorder()
            config = EngineConfig(Path(embedded.path()), threads=1, kv_bytes=32_000_000)
            block = portal.wrap_async_context_manager(
                open_runtime(
                    engine=config,
                    observers=[recorder],
                    place="thread",
                    config=RunConfig(seed=7),
                    scheduler=SchedulerConfig(prefill_ahead=on),
                )
            )
            rig = Rig(portal, block.__enter__(), recorder, close_rigs)
            stack.append(block)
            return rig

        yield open_rig
        close_rigs()


def test_a_prompt_is_computed_while_a_tool_runs(opened: Any) -> None:
    with_it, without = opened(), opened(on=False)
    for question in QUESTIONS:
        outputs = [rig.run(report, question) for rig in (with_it, without)]
        assert outputs[0] == outputs[1]
    saved = with_it.saved
    assert saved.wasted_tokens == 0
    assert saved.used_tokens >= 32
    assert with_it.left("write") <= without.left("write") - 32
    assert without.saved == SavedWork()
    assert f"prefilled ahead {saved.used_tokens} tokens, wasted 0" in saved.text()


def test_a_wrong_guess_is_reported_and_changes_nothing(opened: Any) -> None:
    with_it, without = opened(), opened(on=False)
    for question in QUESTIONS[:4]:
        with_it.run(report, question)
    style = "Write a poem about it, in rhymes, and make it long enough for a whole page of a book."
    assert with_it.run(report, QUESTIONS[5], style) == without.run(report, QUESTIONS[5], style)
    assert with_it.saved.wasted_tokens >= 16
    assert with_it.left("write") <= without.left("write")


def test_a_run_that_ends_has_nothing_left_behind(opened: Any) -> None:
    @program
    async def ends(question: str, early: bool) -> str:
        await search(question)
        if early:
            return ""
        return await WRITE.user(question, "?").generate(max_tokens=4, name="write")

    rig = opened()
    for question in QUESTIONS[:4]:
        rig.run(ends, question, False)
    rig.run(ends, QUESTIONS[4], True)
    assert rig.saved.expected >= 1
    assert rig.saved.used_tokens == 0
    assert rig.saved.wasted_tokens >= 16
    assert rig.run(report, QUESTIONS[5])


def test_a_prompt_is_computed_while_a_person_thinks(opened: Any) -> None:
    @program
    async def consults(question: str) -> str:
        plan = PLAN.user(question).generate(max_tokens=4, name="plan")
        await plan
        advice = await ask(str, "Is that right?")
        last = plan.ctx.user(f"Once more, and with more care than before: {question}\n", advice)
        return await last.generate(max_tokens=4, name="again")

    async def answers(question: Any) -> str:
        await idle()
        return "yes"

    with_it, without = opened(), opened(on=False)
    for question in QUESTIONS:
        outputs = [rig.run(consults, question, on_ask=answers) for rig in (with_it, without)]
        assert outputs[0] == outputs[1]
    assert with_it.left("again") <= without.left("again") - 16


def test_another_process_knows_it_too(
    opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the texts of the runs: the instructions and the words around values."""
    monkeypatch.setenv("AGENTRT_ESTIMATES", str(tmp_path / "estimates"))
    first = opened()
    for question in QUESTIONS[:4]:
        first.run(report, question)
    first.close_all()
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"write " in kept
    assert b"old town" not in kept
    second = opened()
    second.run(report, QUESTIONS[4])
    assert second.saved.used_tokens >= 32
    second.close_all()


def test_each_salt_has_its_own(opened: Any) -> None:
    rig = opened()
    for question in QUESTIONS:
        rig.run(report, question, cache_salt="tenant")
    assert rig.saved.used_tokens >= 32


def test_programs_at_once_and_inside_each_other(opened: Any) -> None:
    @program
    async def both(first: str, second: str) -> list[str]:
        return list(await gather(report(first), report(second)))

    with_it, without = opened(), opened(on=False)
    for at in range(0, 6, 2):
        outputs = [rig.run(both, *QUESTIONS[at : at + 2]) for rig in (with_it, without)]
        assert outputs[0] == outputs[1]


def test_the_likely_branch_behind_a_guard(opened: Any) -> None:
    """While the guard is looked into, what is written after a yes is computed."""

    @tool(effects="read")
    async def look_into(message: str) -> Literal["yes", "no"]:
        """Looks into it."""
        await idle()
        return "yes" if "town" in message else "no"

    @program
    async def guarded(message: str) -> str:
        ctx = PLAN.user(message)
        if await look_into(message) == "yes":
            words = "Decline politely, in one sentence, without giving any reason for it."
            return await ctx.user(words).generate(max_tokens=4, name="decline")
        return await ctx.generate(max_tokens=4, name="answer")

    with_it, without = opened(), opened(on=False)
    for question in QUESTIONS:
        outputs = [rig.run(guarded, question) for rig in (with_it, without)]
        assert outputs[0] == outputs[1]
    assert with_it.left("decline") <= without.left("decline") - 16
    for rig in (with_it, without):
        rig.run(guarded, "A question about something else, and from someone else: what is risk?")
    assert with_it.saved.wasted_tokens >= 16
    assert with_it.left("answer") <= without.left("answer")
