"""Streamed fills: a prompt takes the text that it waits for while that is written."""

from itertools import pairwise, permutations
from typing import Annotated, Any

import anyio
import pytest
from pydantic import AfterValidator, StringConstraints

from agentrt import Gen, NodeCancelled, chat, gather, program
from agentrt.base.config import SchedulerConfig
from agentrt.base.errors import InternalError
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.protocol.events import NodeFinished, PromptRevised, RequestSent
from agentrt.runtime.requests.begun_text import BegunText
from agentrt.runtime.requests.streamed_fills import StreamedFills
from agentrt.testing import Reply

ASK = chat(system="Be brief.")
WORDS = " ".join(f"word{n} of the  draft," for n in range(60))
OTHER = " ".join(f"line{n}\n of another" for n in range(60))


@program
async def joined() -> str:
    """Two drafts and a verdict on them."""
    first = ASK.user("One.").generate(name="first", max_tokens=2000)
    second = ASK.user("Two.").generate(name="second", max_tokens=2000)
    verdict = ASK.user("Of ", first, " and ", second, ": which?").generate(name="verdict")
    return await verdict


def whole_prompt(rig: Any) -> tuple[int, ...]:
    """The ids that the engine has of the verdict's prompt when it is complete."""
    request = next(r for r in rig.backend.seen.requests if r.node_id.endswith("verdict#0"))
    ids: tuple[int, ...] = request.prompt.token_ids
    for request_id, fill in rig.backend.seen.fills:
        if request_id == request.request_id:
            ids += fill.token_ids
    return ids


def test_a_prompt_grows_while_its_text_is_written(bench: Any, codec: Any) -> None:
    """Before the last draft ends, most of it stands in the engine; the ids are the same."""
    rig = bench([WORDS, OTHER, "both"], codec=codec, decode_tokens_per_s=10.0)
    assert rig.run(joined) == "both"
    fills = [fill for _, fill in rig.backend.seen.fills]
    assert len(fills) > 6
    assert [fill.complete for fill in fills] == [False] * (len(fills) - 1) + [True]
    whole = ASK.user("Of ", WORDS, " and ", OTHER, ": which?")
    assert whole_prompt(rig) == codec.encode((), prompt_segments(whole)).token_ids
    assert not rig.recorder.of(PromptRevised)


def test_without_it_each_text_is_filled_at_its_end(bench: Any, codec: Any) -> None:
    rig = bench(
        [WORDS, OTHER, "both"],
        codec=codec,
        decode_tokens_per_s=10.0,
        scheduler=SchedulerConfig(stream_fills=False),
    )
    assert rig.run(joined) == "both"
    assert len(rig.backend.seen.fills) == 1, "the other draft had ended before"


def test_what_is_sent_is_always_the_beginning_of_what_follows(bench: Any, codec: Any) -> None:
    """A second draft that is ready first comes at once when the first one has ended."""

    @program
    async def uneven() -> str:
        first = ASK.user("One.").generate(name="first", max_tokens=2000)
        second = ASK.user("Two.").generate(name="second", max_tokens=2000)
        third = ASK.user("Of ", first, "\n\n", second, ": which?").generate(name="verdict")
        await gather(first, second)
        return await third

    rig = bench([WORDS, "short", "both"], codec=codec, decode_tokens_per_s=10.0)
    assert rig.run(uneven) == "both"
    whole = ASK.user("Of ", WORDS, "\n\n", "short", ": which?")
    assert whole_prompt(rig) == codec.encode((), prompt_segments(whole)).token_ids
    times = [fill for _, fill in rig.backend.seen.fills]
    assert all(one.token_ids or one.complete for one in times)


@pytest.mark.parametrize("words", list(permutations((40, 120, 200))))
def test_texts_go_in_whatever_the_order_of_their_ends(
    bench: Any, codec: Any, words: tuple[int, ...]
) -> None:
    """Each goes on where the one before has ended; little is left when the last one ends."""
    texts = [" ".join(f"{at}word{n}" for n in range(count)) for at, count in enumerate(words)]

    @program
    async def three() -> str:
        nodes = [ASK.user(f"{at}.").generate(name=f"draft{at}", max_tokens=4000) for at in range(3)]
        parts = [part for node in nodes for part in (node, "\n\n")]
        return await ASK.user(*parts, "Which?").generate(name="verdict")

    rig = bench([*texts, "the last"], codec=codec, decode_tokens_per_s=10.0)
    assert rig.run(three) == "the last"
    whole = ASK.user(*(part for text in texts for part in (text, "\n\n")), "Which?")
    ids = codec.encode((), prompt_segments(whole)).token_ids
    assert whole_prompt(rig) == ids
    assert not rig.recorder.of(PromptRevised)
    last = len(rig.backend.seen.fills[-1][1].token_ids)
    behind = max(at for at in range(3) if words[at] == 200)
    late = sum(codec.count(text) for text in texts[behind + 1 :])
    assert last <= late + 80, "the parts behind the longest text, and its own end"
    ledger = rig.recorder.of(NodeFinished, "verdict")[0].ledger
    assert ledger.late_tokens == last + ledger.prompt_tokens - len(ids)


def test_a_value_that_is_not_what_was_written_takes_the_request_back(
    bench: Any, codec: Any
) -> None:
    """The prompt has the value; what the engine computed of the text is asked for no more."""
    loud = Annotated[str, StringConstraints(to_upper=True, max_length=4000)]

    @program
    async def shouting() -> str:
        first = ASK.user("One.").generate(loud, name="first", max_tokens=2000)
        return await ASK.user("Of ", first, ": which?").generate(name="verdict")

    rig = bench([WORDS, "both"], codec=codec, decode_tokens_per_s=10.0)
    assert rig.run(shouting) == "both"
    assert len(rig.recorder.of(PromptRevised)) == 1
    taken_back, sent = (r for r in rig.backend.seen.requests if r.node_id.endswith("verdict#0"))
    assert rig.backend.seen.fills[0][0] == taken_back.request_id
    whole = ASK.user("Of ", WORDS.upper(), ": which?")
    assert sent.prompt.token_ids == codec.encode((), prompt_segments(whole)).token_ids


def test_a_text_that_is_checked_goes_in_when_it_has_passed(bench: Any, codec: Any) -> None:
    @program
    async def checked() -> str:
        same = Annotated[str, AfterValidator(lambda text: text)]
        first = ASK.user("One.").generate(same, name="first", max_tokens=2000, check=True)
        return await ASK.user("Of ", first, ": which?").generate(name="verdict")

    rig = bench([WORDS, "both"], codec=codec, decode_tokens_per_s=10.0)
    assert rig.run(checked) == "both"
    assert [fill.complete for _, fill in rig.backend.seen.fills] == [True]


def test_a_text_that_is_cancelled_ends_its_readers(bench: Any, codec: Any) -> None:
    @program
    async def stopped() -> str:
        first = ASK.user("One.").generate(name="first", max_tokens=2000)
        verdict = ASK.user("Of ", first, ": which?").generate(name="verdict")
        async for _ in first.stream():
            if len(first.written.chunks) > 70:
                break
        first.cancel("enough")
        await verdict
        return "never"

    rig = bench([WORDS, "both"], codec=codec, decode_tokens_per_s=10.0)
    with pytest.raises(NodeCancelled, match="enough"):
        rig.run(stopped)
    assert len(rig.backend.seen.fills) > 1
    assert len(rig.recorder.of(NodeFinished, "verdict")) == 1


def test_a_text_that_fails_half_way_ends_its_readers(bench: Any, codec: Any) -> None:
    """Its prompt is not completed, and the request for it is taken back."""
    broken = Reply(text=WORDS, error=InternalError("the engine's logits are no numbers"))
    rig = bench([broken, OTHER, "both"], codec=codec, decode_tokens_per_s=10.0)
    with pytest.raises(InternalError, match="no numbers"):
        rig.run(joined)
    fills = [fill for _, fill in rig.backend.seen.fills]
    assert len(fills) > 2
    assert not any(fill.complete for fill in fills)
    verdict = next(r for r in rig.backend.seen.requests if r.node_id.endswith("verdict#0"))
    assert verdict.request_id in rig.backend.seen.cancels
    assert len(rig.recorder.of(NodeFinished, "verdict")) == 1


@pytest.mark.parametrize("own_fault", [False, True])
def test_a_text_goes_on_in_its_readers_behind_a_lost_engine(
    bench: Any, codec: Any, own_fault: bool
) -> None:
    """What the lost engine had written and taken is not written or taken twice."""
    rig = bench([WORDS, OTHER, "both"], codec=codec, decode_tokens_per_s=10.0, seeds=True)

    async def main(runtime: Any) -> Any:
        async with anyio.create_task_group() as tasks:

            async def lose() -> None:
                for _ in range(3):
                    await anyio.sleep(9.0)
                    rig.backend.lose_engine(own_fault=own_fault)

            tasks.start_soon(lose)
            return await runtime.run(joined)

    assert rig.main(main) == "both"
    assert any(one.output_ids for one in rig.backend.seen.requests)
    whole = ASK.user("Of ", WORDS, " and ", OTHER, ": which?")
    last = [r for r in rig.backend.seen.requests if r.node_id.endswith("verdict#0")][-1]
    text = codec.encode((), prompt_segments(whole)).token_ids
    sent = rig.backend.seen.prompts[last.request_id]
    assert f"Of {WORDS} and {OTHER}: which?" in sent
    assert tuple(last.prompt.token_ids) == text[: len(last.prompt.token_ids)]
    assert not rig.recorder.of(PromptRevised)


def test_a_text_that_is_never_asked_for_leaves_no_readers(bench: Any, codec: Any) -> None:
    """Its prompt fits nowhere, and no request of it ends."""
    fills = StreamedFills(is_on=True)

    async def too_long(_: Any) -> Any:
        raise ValueError("too long")

    @program
    async def unsent() -> str:
        long = ASK.user("word " * 60)
        for _ in range(60):
            long = long.assistant("answer").user("word " * 60)
        first = long.generate(name="first", on_overflow=too_long)
        verdict = ASK.user("Of ", first, ": which?").generate(name="verdict")
        fills.add_reader(first, verdict)
        assert fills.readers
        return await verdict

    with pytest.raises(ValueError, match="too long"):
        bench([], codec=codec).run(unsent)
    assert not fills.readers


def test_begun_text_never_changes(bench: Any, codec: Any) -> None:
    seen: list[tuple[str, ...]] = []

    @program
    async def watched() -> str:
        first: Gen[str] = ASK.user("One.").generate(name="first", max_tokens=2000)
        begun = BegunText.of(first, "compact")
        assert begun is not None
        async for _ in first.stream():
            begun.catch_up()
            seen.append(begun.parts)
        return await first

    rig = bench([WORDS], codec=codec, decode_tokens_per_s=10.0)
    rig.run(watched)
    assert len(set(seen)) > 3
    assert all(after[: len(before)] == before for before, after in pairwise(seen))
    assert WORDS.startswith("".join(seen[-1]))
    assert len(rig.recorder.of(RequestSent)) == 1
