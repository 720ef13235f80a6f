"""An engine that cannot go on behind a lost output writes it anew: nothing is handed on twice.

The scripted engine writes ten characters a second, so the instant of a loss chooses its place.
"""

import itertools
import json
from types import SimpleNamespace
from typing import Annotated, Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from agentrt import OutputDiverged, chat, gather, program, tool
from agentrt.base.ids import RequestId
from agentrt.protocol.events import ItemClosed, Scheduled
from agentrt.protocol.step_output import Delta, TokenLogprob
from agentrt.runtime.in_flight.replay import Replay
from tests.runtime.conftest import Bench

ASK = chat(system="Be brief.")
TEXT = "one two three four five six"
LIST = "[1,22,333,4444]"
Digits = Annotated[int, Field(ge=0)]


@program
async def streamed() -> str:
    node = ASK.user("x").generate(name="x")
    pieces = [piece async for piece in node.stream()]
    assert "".join(pieces) == await node
    return await node


@program
async def listed() -> list[int]:
    node = ASK.user("x").each(Digits, name="x")
    items = [item async for item in node]
    assert items == await node
    return items


@program
async def awaited() -> str:
    return await ASK.user("x").generate(name="x")


def losing(answers: list[str], losses: list[int], **engine: Any) -> Any:
    """A rig, and a function that plays a program while the engine is lost behind so many tokens."""
    left = list(answers)

    def answer(request: Any, prompt: str) -> str:
        return left.pop(0) if len(left) > 1 else left[0]

    rig = Bench(answer, decode_tokens_per_s=10.0, resumes=False, **engine)

    async def lose() -> None:
        for tokens in losses:
            await anyio.sleep(tokens / 10 + 0.05)
            rig.backend.lose_engine(answers_anew=True)

    def play(called: Any) -> Any:
        async def main(runtime: Any) -> Any:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lose)
                try:
                    return await runtime.run(called)
                except OutputDiverged as error:
                    return error

        return rig.main(main)

    return rig, play


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.lists(st.integers(0, len(TEXT)), max_size=5))
def test_equal_text_comes_once(losses: list[int]) -> None:
    _, play = losing([TEXT], losses)
    assert play(streamed) == TEXT


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.lists(st.integers(0, len(LIST)), max_size=5))
def test_equal_items_come_once(losses: list[int]) -> None:
    rig, play = losing([LIST], losses)
    assert play(listed) == json.loads(LIST)
    assert [event.index for event in rig.recorder.of(ItemClosed)] == [0, 1, 2, 3]


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.integers(1, len(TEXT) - 1), st.integers(0, len(TEXT) - 1), st.integers(0, 30))
def test_other_text_is_an_error_once_some_was_read(lost_at: int, same: int, more: int) -> None:
    """Also if the second answer is only shorter than what was read."""
    second = TEXT[:same] + "~" * more
    _, play = losing([TEXT, second], [lost_at])
    found = play(streamed)
    if same >= lost_at:
        assert found == second
    else:
        assert isinstance(found, OutputDiverged)
        assert (found.item, found.offset, found.retryable) == (None, same, False)
        assert found.before == TEXT[same:lost_at]
        assert second[same:].startswith(found.after)
        assert f"at character {same}" in found.message


@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.integers(1, len(LIST) - 1), st.integers(0, 3))
def test_another_item_is_an_error_once_it_was_handed_out(lost_at: int, same: int) -> None:
    """An item that was only begun may still become another one."""
    items = json.loads(LIST)
    second = [*items[:same], 9, 99]
    _, play = losing([LIST, json.dumps(second, separators=(",", ":"))], [lost_at])
    handed_out = LIST[:lost_at].count(",")
    found = play(listed)
    if same >= handed_out:
        assert found == second
    else:
        assert isinstance(found, OutputDiverged)
        assert (found.item, found.before) == (same, str(items[same]))
        assert f"handed out item {same}, '{items[same]}'" in found.message
        assert found.where


@pytest.mark.parametrize("lost_at", [1, 13, 26])
def test_what_is_awaited_as_a_whole_may_be_another_one(lost_at: int) -> None:
    rig, play = losing([TEXT, "something else"], [lost_at])
    assert play(awaited) == "something else"
    (resubmitted,) = rig.recorder.of(Scheduled, "x")
    assert resubmitted.decision == "resubmitted"


def test_text_that_was_looked_at_is_handed_on() -> None:
    @program
    async def peeks() -> str:
        node = ASK.user("x").generate(name="x")
        await anyio.sleep(0.5)
        assert TEXT.startswith(node.text)
        return await node

    _, play = losing([TEXT, "something else"], [8])
    found = play(peeks)
    assert isinstance(found, OutputDiverged)
    assert found.offset == 0


def test_a_reading_that_begins_later_reads_the_second_output() -> None:
    @program
    async def late() -> str:
        node = ASK.user("x").generate(name="x")
        await anyio.sleep(1.5)
        return "".join([piece async for piece in node.stream()])

    _, play = losing([TEXT, "something else"], [8])
    assert play(late) == "something else"


def test_like_requests_part_where_one_was_read() -> None:
    """The engine computes them once; who read the first output fails, the other has the second."""

    @program
    async def twins() -> list[Any]:
        question = ASK.user("x")
        read, unread = (question.generate(name=name, temperature=0.0) for name in ("r", "u"))

        async def reading() -> Any:
            try:
                return [piece async for piece in read.stream()]
            except OutputDiverged as error:
                return error

        found: list[Any] = []
        async with anyio.create_task_group() as tasks:

            async def note() -> None:
                found.append(await reading())

            tasks.start_soon(note)
            value = await unread
        return [value, *found]

    rig, play = losing([TEXT, "something else"], [8], seeds=True)
    value, error = play(twins)
    assert value == "something else"
    assert isinstance(error, OutputDiverged)
    assert len({one.request_id for one in rig.backend.seen.requests}) == 1


def test_calls_that_were_started_stay_and_run_once() -> None:
    ran: list[int] = []

    @tool(effects="write")
    def pay(cents: int) -> int:
        """Pays."""
        ran.append(cents)
        return cents

    def calls(*amounts: int) -> str:
        return json.dumps(
            [{"name": "pay", "arguments": {"cents": one}} for one in amounts],
            separators=(",", ":"),
        )

    @program
    async def pays() -> list[int]:
        plan = ASK.user("x").calls(pay, name="x")
        calls = [call async for call in plan]
        started = [call.start() for call in calls]
        assert all(a is b for a, b in zip(await plan, calls, strict=True))
        return list(await gather(*started))

    one, two = calls(1, 2), calls(1, 7, 8)
    lost_at = one.index(",{") + 5
    _, play = losing([one, two], [lost_at])
    assert play(pays) == [1, 7, 8]
    assert sorted(ran) == [1, 7, 8]
    _, play = losing([one, calls(3)], [lost_at])
    found = play(pays)
    assert isinstance(found, OutputDiverged)
    assert (found.item, found.before) == (0, 'pay({"cents":1})')


def test_checked_text_has_not_been_handed_on() -> None:
    """Its readers get it once it has passed."""

    @program
    async def checked() -> tuple[str, str]:
        node = ASK.user("x").generate(Annotated[str, Field(max_length=40)], check=True, name="x")
        pieces = [piece async for piece in node.stream()]
        return "".join(pieces), await node

    _, play = losing(['"first"', '"second"'], [4])
    assert play(checked) == ('"second"', '"second"')


def pushed(pieces: list[tuple[str, int]], before: tuple[str, int]) -> tuple[str, list[int], bool]:
    """New text and ids of an output of pieces, each with its number of ids, behind a first one."""
    ids = itertools.count()
    known, count = before
    first: Any = SimpleNamespace(raw_text=known, output_ids=[0] * count)
    replay, text = Replay(first), ""
    found: list[int] = []
    for piece, tokens in pieces:
        some = tuple(itertools.islice(ids, tokens))
        entries = tuple(TokenLogprob(one, -1.0) for one in some)
        delta = Delta(RequestId(1), some, piece, logprobs=entries)
        new = delta if replay.through else replay.push(delta)
        if new is not None:
            assert [one.token_id for one in new.logprobs] == list(new.token_ids)
            text += new.text
            found += new.token_ids
    return text, found, replay.complete


@pytest.mark.parametrize("known", [("", 1), ("ab", 1), ("ab", 2), ("abc", 2), ("abc", 3)])
@pytest.mark.parametrize(
    "pieces",
    [
        [("a", 1), ("b", 0), ("c", 1), ("", 1), ("de", 1)],
        [("abcde", 4)],
        [("", 1), ("abc", 1), ("d", 2), ("e", 0)],
        [("", 3), ("abcde", 1)],
    ],
)
def test_each_id_comes_once_with_its_log_probability(
    pieces: list[tuple[str, int]], known: tuple[str, int]
) -> None:
    """An id may come before its text, so the first output may have ids beyond its text."""
    text, count = known
    assert pushed(pieces, known) == ("abcde"[len(text) :], list(range(count, 4)), True)


def test_an_output_of_fewer_ids_is_whole_nevertheless() -> None:
    assert pushed([("ab", 1), ("c", 1)], ("ab", 3)) == ("c", [], True)
