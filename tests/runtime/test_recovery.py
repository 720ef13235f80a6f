"""Programs go on when their engine is lost, and only what ends engines alone is refused."""

from collections import Counter
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from agentrt import (
    DeadlineExceeded,
    EngineDied,
    NodeCancelled,
    RequestRejected,
    chat,
    gather,
    program,
)
from agentrt.base.ids import RequestId
from agentrt.protocol.events import NodeFinished, Scheduled
from agentrt.runtime.requests.dispatch import STOP_GRACE_S
from agentrt.runtime.requests.recovery import Quarantine

ASK = chat(system="Be brief.")
TEXT = "one two three four five six"


@program
async def told(name: str) -> tuple[str, list[str]]:
    node = ASK.user(name).generate(name=name)
    pieces = [piece async for piece in node.stream()]
    return await node, pieces


@program
async def many(names: list[str]) -> list[str]:
    return list(await gather(*(ASK.user(name).generate(name=name) for name in names)))


@program
async def listed() -> list[int]:
    return [item async for item in ASK.user("x").each(int)]


def lose_often(rig: Any, times: int, every_s: float, **how: Any) -> Any:
    async def lose() -> None:
        for _ in range(times):
            await anyio.sleep(every_s)
            rig.backend.lose_engine(**how)

    return lose


def play(rig: Any, lose: Any, called: Any, *args: Any) -> Any:
    async def main(runtime: Any) -> Any:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lose)
            return await runtime.run(called, *args)

    return rig.main(main)


@pytest.mark.parametrize("own_fault", [False, True])
def test_a_stream_goes_on_without_a_token_twice(bench: Any, own_fault: bool) -> None:
    rig = bench([TEXT], decode_tokens_per_s=10.0)
    text, pieces = play(rig, lose_often(rig, 4, 0.55, own_fault=own_fault), told, "x")
    assert text == "".join(pieces) == TEXT
    resumed = [one for one in rig.backend.seen.requests if one.output_ids]
    assert len(resumed) >= 3
    lengths = [len(one.output_ids) for one in resumed]
    assert lengths == sorted(lengths)
    seen = rig.recorder.of(Scheduled, "x")
    assert [e.decision for e in seen].count("resubmitted") == 4


def test_items_come_once(bench: Any) -> None:
    rig = bench(["[1,22,333,4444]"], decode_tokens_per_s=10.0)
    assert play(rig, lose_often(rig, 3, 0.35), listed) == [1, 22, 333, 4444]


@pytest.mark.parametrize("own_fault", [False, True])
def test_like_requests_go_on_together(bench: Any, own_fault: bool) -> None:
    rig = bench([TEXT], decode_tokens_per_s=10.0, seeds=True)

    @program
    async def twins() -> list[str]:
        return list(await gather(*(ASK.user("x").generate(temperature=0.0) for _ in range(3))))

    found = play(rig, lose_often(rig, 2, 0.55, own_fault=own_fault), twins)
    assert found == [TEXT] * 3
    ids = {one.request_id for one in rig.backend.seen.requests}
    assert len(ids) == 1, "the engine computes them once"


def test_a_prompt_with_a_hole_goes_on(bench: Any, codec: Any) -> None:
    rig = bench(lambda request, prompt: "ok" * 9, codec=codec, decode_tokens_per_s=20.0)

    @program
    async def filled() -> str:
        first = ASK.user("first").generate(name="first")
        return await ASK.user("then ", first).generate(name="then")

    assert play(rig, lose_often(rig, 3, 0.2), filled) == "ok" * 9
    assert "okok" in list(rig.backend.seen.prompts.values())[-1]


def test_without_output_any_engine_begins_anew(bench: Any) -> None:
    rig = bench([TEXT], prefill_tokens_per_s=10.0, resumes=False)
    assert play(rig, lose_often(rig, 1, 0.05), told, "x")[0] == TEXT


class Poisoned:
    """An engine that dies in each step that computes a prompt with `poison`."""

    def __init__(self, rig: Any, *, deaths: int = 1_000) -> None:
        self.rig = rig
        self.deaths = deaths
        self.alone: Counter[bool] = Counter()

    async def __call__(self) -> None:
        backend = self.rig.backend
        while True:
            await anyio.sleep(0.02)
            prompts = [backend.seen.prompts.get(one, "") for one in backend.ongoing]
            if self.deaths and any("poison" in prompt for prompt in prompts):
                self.deaths -= 1
                self.alone[len(prompts) == 1] += 1
                backend.lose_engine(own_fault=True)


def outcomes(rig: Any, names: list[str], poisoned: Poisoned) -> dict[str, str]:
    @program
    async def each() -> list[str]:
        found = []
        for node in [ASK.user(name).generate(name=name) for name in names]:
            try:
                found.append(await node)
            except RequestRejected as error:
                found.append(str(error))
        return found

    async def main(runtime: Any) -> Any:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(poisoned)
            found = await runtime.run(each)
            tasks.cancel_scope.cancel()
        return dict(zip(names, found, strict=True))

    found: dict[str, str] = rig.main(main)
    return found


@pytest.mark.parametrize("names", [["poison"], ["a", "b", "poison", "c"], ["poison 1", "poison 2"]])
def test_only_what_ends_an_engine_alone_twice_is_refused(bench: Any, names: list[str]) -> None:
    rig = bench(lambda request, prompt: TEXT, decode_tokens_per_s=10.0)
    poisoned = Poisoned(rig)
    found = outcomes(rig, names, poisoned)
    for name in names:
        if name.startswith("poison"):
            assert f"generate:{name}#0 ended the engine 2 times" in found[name]
        else:
            assert found[name] == TEXT
    assert poisoned.alone[True] == 2 * sum(name.startswith("poison") for name in names)
    assert poisoned.alone[False] <= 1


def test_presence_at_a_death_proves_nothing(bench: Any) -> None:
    """One death that no request causes again: all go on, the last trial ends the quarantine."""
    rig = bench(lambda request, prompt: TEXT, decode_tokens_per_s=10.0)
    names = ["a", "poison", "b"]
    assert outcomes(rig, names, Poisoned(rig, deaths=1)) == dict.fromkeys(names, TEXT)


def test_what_is_stopped_meanwhile_ends(bench: Any) -> None:
    rig = bench(lambda request, prompt: TEXT, decode_tokens_per_s=10.0)

    @program
    async def stops() -> str:
        nodes = [ASK.user(name).generate(name=name) for name in ("a", "b", "c")]
        await anyio.sleep(0.5)
        rig.backend.lose_engine(own_fault=True)
        await anyio.lowlevel.checkpoint()
        nodes[0].cancel("enough")
        nodes[2].cancel("enough")
        return await nodes[1]

    assert rig.run(stops) == TEXT


@pytest.mark.parametrize("restarting", [True, False])
def test_others_do_not_wait_for_a_trial_whose_node_has_ended(bench: Any, restarting: bool) -> None:
    """Its node ended while the engine gave no answer, and then the engine was lost too."""
    rig = bench(lambda request, prompt: TEXT, decode_tokens_per_s=0.5)

    @program
    async def waits() -> str:
        nodes = [ASK.user(name).generate(name=name) for name in ("a", "b")]
        await anyio.sleep(0.1)
        rig.backend.lose_engine(own_fault=True)
        await anyio.sleep(0.1)
        assert [one.request_id for one in rig.backend.seen.requests[2:]] == list(
            rig.backend.ongoing
        )
        nodes[0].cancel("enough")
        await anyio.sleep(1.0)
        rig.backend.lose_engine(restarting=restarting)
        return await nodes[1]

    if restarting:
        assert rig.run(waits) == TEXT
    else:
        with pytest.raises(EngineDied):
            rig.run(waits)


def test_the_one_under_trial_is_tried_again_first() -> None:
    one, two, three = (RequestId(n) for n in (1, 2, 3))
    quarantine = Quarantine()
    quarantine.suspect([one, two, three], {one, two})
    assert (list(quarantine.suspects), quarantine.waiting) == ([one, two], [three])
    assert quarantine.next_trial({one: 0, two: 0}) == one
    quarantine.suspect([one], {one})
    assert quarantine.next_trial({two: 0}) == two, "a node that has ended is not tried"
    assert quarantine.next_trial({two: 0}) is None


@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_no_end_waits_for_an_engine_that_hangs(bench: Any, how: str) -> None:
    """The node ends at its deadline, or when it is cancelled; the engine may answer much later."""
    rig = bench([TEXT, TEXT], decode_tokens_per_s=0.001)

    @program
    async def hangs() -> float:
        began_s = rig.clock.now_s()
        node = ASK.user("x").generate(deadline=2.0 if how == "deadline" else 99.0)
        await anyio.sleep(1.0)
        if how == "cancel":
            node.cancel("enough")
        with pytest.raises(DeadlineExceeded if how == "deadline" else NodeCancelled):
            await node
        return float(rig.clock.now_s() - began_s)

    ended_s = 2.0 if how == "deadline" else 1.0
    assert rig.run(hangs) == pytest.approx(ended_s + STOP_GRACE_S)
    (finished,) = rig.recorder.of(NodeFinished, "str")
    assert finished.ledger.source == "inferred"
