"""Opening a runtime, and the synchronous door of programs."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from agentrt import EngineUnavailable, ModelInvalid, UsageError, chat, program
from agentrt.app import open_runtime
from agentrt.base.config import EngineConfig, SchedulerConfig
from agentrt.base.engine_selection import EngineSelection
from agentrt.program.default_runner import default_runner, set_default_runner
from agentrt.protocol.events import NodeDeclared, RequestSent, Scheduled
from agentrt.scheduler import Estimates
from agentrt.testing import tiny_engine

pytestmark = pytest.mark.model
ASK = chat(system="Be brief.")


@program
async def answers(question: str) -> str:
    return await ASK.user(question).generate(max_tokens=3)


@program
async def nothing() -> int:
    return 1


def test_run_inside_a_running_loop_says_where_to_go() -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match=r"await runtime.run\(nothing, \.\.\.\)"):
            nothing.run()

    anyio.run(main)


def test_run_hands_over_to_the_default_runner() -> None:
    called: list[Any] = []

    def runner(program: Any, args: Any, kwargs: Any, engine: Any) -> str:
        called.append((program, args, kwargs, engine))
        return "ran"

    before = default_runner()
    set_default_runner(runner)
    try:
        assert answers.run("x") == "ran"
        assert answers.with_engine("http://127.0.0.1:9", model="m").run("y") == "ran"
    finally:
        set_default_runner(before)
    there = EngineSelection("http://127.0.0.1:9", "m")
    assert called == [(answers, ("x",), {}, None), (answers, ("y",), {}, there)]


def test_run_from_synchronous_code() -> None:
    """The embedded model in its own process, from start to end."""
    assert isinstance(answers.run("What is 1 + 1?"), str)


def test_a_directory_without_a_model_is_told(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(ModelInvalid, match=str(tmp_path)):
            async with open_runtime(engine=EngineConfig(tmp_path)):
                pass

    anyio.run(main)


def test_what_a_model_has_no_place_for_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = tiny_engine(tmp_path)
    (tmp_path / "chat_template.jinja").unlink()

    async def main() -> None:
        async with open_runtime(engine=config, place="thread"):
            pass

    anyio.run(main)
    assert "there is no chat template" in caplog.text


def test_an_address_that_does_not_answer_is_told() -> None:
    async def main() -> None:
        with pytest.raises(EngineUnavailable):
            async with open_runtime(engine="http://127.0.0.1:9"):
                pass

    anyio.run(main)


def test_what_runs_teach_is_kept_for_the_next_runtime(
    tiny: EngineConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTRT_ESTIMATES", str(tmp_path / "state" / "estimates.sqlite"))

    async def lengths(config: EngineConfig, runs: int) -> int:
        async with open_runtime(engine=config, place="thread") as runtime:
            known = runtime.estimates.site("").histograms.get("output_tokens")
            count = 0 if known is None else known.count
            for _ in range(runs):
                await runtime.run(answers, "x")
            return count

    assert anyio.run(lengths, tiny, 2) == 0
    assert anyio.run(lengths, tiny, 1) == 2
    assert anyio.run(lengths, tiny, 0) == 3
    other = tiny_engine(tmp_path / "other")
    assert anyio.run(lengths, other, 0) == 0, "another engine takes another time"


def test_estimates_that_are_handed_in_are_not_kept(
    tiny: EngineConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "estimates.sqlite"
    monkeypatch.setenv("AGENTRT_ESTIMATES", str(path))
    mine = Estimates()

    async def main() -> None:
        async with open_runtime(engine=tiny, place="thread", estimates=mine) as runtime:
            await runtime.run(answers, "x")

    anyio.run(main)
    assert mine.site("").histograms["output_tokens"].count == 1
    assert not path.exists()


def test_what_a_run_begins_with_is_known_before_it_is_sent(tiny: EngineConfig) -> None:
    """The gate goes by it, long before past runs tell what such a run needs."""
    seen: list[Any] = []

    class Seeing:
        def on_events(self, events: Any) -> None:
            seen.extend(events)

    async def main() -> None:
        async with open_runtime(engine=tiny, place="thread", observers=[Seeing()]) as runtime:
            await runtime.run(answers, "How long is this?")

    anyio.run(main)
    (declared,) = [e for e in seen if isinstance(e, NodeDeclared) and e.kind == "generate"]
    (sent,) = [e for e in seen if isinstance(e, RequestSent)]
    assert declared.prompt_tokens == sent.prompt_tokens > 10
    assert declared.max_tokens == 3
    (admitted,) = [e for e in seen if isinstance(e, Scheduled) and e.decision == "admitted"]
    assert dict(admitted.terms)["peak_tokens"] == sent.prompt_tokens + 3


def test_a_policy_is_that_of_the_engine_too(tiny: EngineConfig) -> None:
    placed: set[str] = set()

    class Seeing:
        def on_events(self, events: Any) -> None:
            placed.update(
                one.policy
                for one in events
                if isinstance(one, Scheduled) and one.decision == "placed"
            )

    async def main() -> None:
        scheduler = SchedulerConfig(policy="plas")
        async with open_runtime(
            engine=tiny, place="thread", scheduler=scheduler, observers=[Seeing()]
        ) as runtime:
            await runtime.run(answers, "Which is first?")

    anyio.run(main)
    assert placed == {"plas"}


def test_run_takes_the_engine_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTRT_ENGINE", "http://127.0.0.1:9")
    with pytest.raises(EngineUnavailable, match=r"127\.0\.0\.1:9"):
        answers.run("x")


def test_run_takes_the_model_that_is_given(tmp_path: Path) -> None:
    with pytest.raises(ModelInvalid, match=str(tmp_path)):
        answers.with_engine(model=str(tmp_path)).run("x")


@program
async def decides() -> tuple[bool, int, bool]:
    gen = ASK.user("Is the sky blue?").generate(bool, cache=True, logprobs=1)
    return await gen, len(gen.meta.logprobs), gen.meta.ledger.is_cached


def test_a_later_runtime_takes_the_answers_of_an_earlier_one(tmp_path: Path) -> None:
    async def main() -> None:
        config, place = tiny_engine(tmp_path / "tiny"), str(tmp_path / "responses.sqlite")
        found = []
        for _ in range(2):
            async with open_runtime(engine=config, place="thread", response_cache=place) as runtime:
                found.append(await runtime.run(decides))
        assert [is_cached for *_, is_cached in found] == [False, True]
        assert found[0][:2] == found[1][:2]
        assert found[0][1] > 0, "logprobs come back, too"

    anyio.run(main)


def test_a_failed_run_shows_the_program_and_not_what_runs_it() -> None:
    @program
    async def unfinished(question: str) -> Any:
        return ASK.user(question).generate(max_tokens=3)

    @program
    async def broken(question: str) -> str:
        return question[100]

    own = Path(__file__).name
    for failing, inner in ((unfinished, []), (broken, ["broken"])):
        with pytest.raises((UsageError, IndexError)) as raised:
            failing.run("x")
        found = [(Path(one.path).name, one.name) for one in raised.traceback]
        assert [name for file, name in found if file == own][1:] == inner
        assert len(found) - len(inner) == 4, "the test, and three that hand over"
