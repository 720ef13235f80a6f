"""Opening a runtime, and the synchronous door of programs."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from agentrt import EngineUnavailable, ModelInvalid, UsageError, chat, program
from agentrt.app import open_runtime
from agentrt.config import EngineConfig
from agentrt.program import door
from agentrt.testing import tiny_engine

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


def test_run_hands_over_to_the_default_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[Any] = []

    def runner(program: Any, args: Any, kwargs: Any) -> str:
        called.append((program, args, kwargs))
        return "ran"

    monkeypatch.setattr(door, "_slot", [runner])
    assert answers.run("x") == "ran"
    assert called == [(answers, ("x",), {})]


@pytest.mark.slow
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
