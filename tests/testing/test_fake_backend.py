"""The scripted engine answers, batches and keeps time on the loop's virtual clock."""

import json

import anyio
import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import RequestRejected
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.base.segments import Close, Open, Text
from agentrt.protocol.backend import (
    GenerateRequest,
    HoleFill,
    MessagePrompt,
    SchedulingInfo,
    TokenPrompt,
)
from agentrt.protocol.step_output import BackendDown, End
from agentrt.testing import LoopClock, Reply, ScriptedBackend, calls_text, run_virtual


def request(number, text="hi", *, ids=None, complete=True, **kwargs):
    prompt = MessagePrompt((Open("user"), Text(text), Close()))
    sampling = kwargs.pop("sampling", SamplingParams())
    return GenerateRequest(
        request_id=RequestId(number),
        run_id=RunId("0" * 16),
        node_id=NodeId(f"n{number}"),
        site="t.py:1",
        prompt=prompt if ids is None else TokenPrompt(ids, complete),
        sampling=sampling,
        **kwargs,
    )


async def outcome(backend, count):
    """The text and end of the first `count` requests that end, by id."""
    texts: dict[int, str] = {}
    ends: dict[int, End] = {}
    async for event in backend.events():
        for delta in event.deltas:
            texts[delta.request_id] = texts.get(delta.request_id, "") + delta.text
        for end in event.ends:
            assert end.request_id not in ends
            ends[end.request_id] = end
        if len(ends) == count:
            return texts, ends


def played(script, *requests, during=None, **kwargs):
    """Texts, ends, seconds and the backend after `requests` were served."""

    async def main():
        backend = ScriptedBackend(script, clock=LoopClock(), **kwargs)
        await backend.start()
        start_s = anyio.current_time()
        for one in requests:
            backend.submit(one)
        async with anyio.create_task_group() as tasks:
            if during is not None:
                tasks.start_soon(during, backend)
            texts, ends = await outcome(backend, len(requests))
        seconds = anyio.current_time() - start_s
        await backend.aclose()
        return texts, ends, seconds, backend

    return run_virtual(main)


def test_answers_by_prompt():
    texts, ends, _, backend = played(lambda request, prompt: prompt.upper(), request(1, "say it"))
    assert texts == {1: "<USER> SAY IT\n"}
    assert ends[1].reason == "stop"
    assert backend.seen.prompts == {1: "<user> say it\n"}


def test_answers_in_order_then_fails_with_what_to_do():
    texts, ends, _, _ = played(["one", "two"], request(1), request(2), request(3))
    assert texts == {1: "one", 2: "two"}
    assert ends[3].reason == "failed"
    assert "ends after 2 answers" in ends[3].error.message


def test_time_follows_the_rates():
    """12 prompt bytes at 6 a second, then 4 tokens at 2 a second."""
    _, ends, seconds, _ = played(
        ["four"],
        request(1, "12345"),
        prefill_tokens_per_s=6,
        decode_tokens_per_s=2,
    )
    ledger = ends[1].ledger
    assert ledger.prompt_tokens == len("<user> 12345\n") == 13
    assert seconds == pytest.approx(13 / 6 + 4 / 2)
    assert ledger.prefill_s == pytest.approx(13 / 6 + 1 / 2)
    assert ledger.decode_s == pytest.approx(3 / 2)


def test_running_requests_share_steps():
    texts, ends, seconds, backend = played(
        ["abcd", "efgh", "ij"], *map(request, (1, 2, 3)), decode_tokens_per_s=10
    )
    assert texts == {1: "abcd", 2: "efgh", 3: "ij"}
    assert seconds == pytest.approx(0.4)
    assert [len(step.requests) for step in backend.seen.steps] == [3, 3, 2, 2]
    assert ends[1].ledger.batch_size_sum == 10


def test_max_running_queues_the_rest():
    _, ends, _, backend = played(
        ["ab", "cd"], request(1), request(2), decode_tokens_per_s=1, max_running=1
    )
    assert [step.requests for step in backend.seen.steps] == [(1,), (1,), (2,), (2,)]
    assert ends[2].ledger.queue_s == pytest.approx(2)


def test_demanded_requests_go_first():
    _, _, _, backend = played(
        lambda request, prompt: "a",
        request(1, demanded=False),
        request(2),
        decode_tokens_per_s=1,
        max_running=1,
    )
    assert [step.requests for step in backend.seen.steps] == [(2,), (1,)]


def test_stop_strings_and_limits_end_outputs():
    texts, ends, _, _ = played(
        ["one. two", "abcdef"],
        request(1, sampling=SamplingParams(stop=(".",))),
        request(2, sampling=SamplingParams(max_tokens=3)),
    )
    assert texts == {1: "one", 2: "abc"}
    assert (ends[1].reason, ends[1].stopped_by, ends[2].reason) == ("stop", ".", "length")
    assert ends[1].ledger.output_tokens == len("one.")


def test_text_never_splits_a_character():
    texts, _, _, backend = played(["é→😀"], request(1))
    assert texts == {1: "é→😀"}
    assert len(backend.seen.steps) == len("é→😀".encode())


def test_holes_are_waited_for_and_take_no_slot():
    async def fill_later(backend):
        await anyio.sleep(5)
        backend.fill_hole(RequestId(1), HoleFill((ord("b"),), complete=False))
        await anyio.sleep(5)
        backend.fill_hole(RequestId(1), HoleFill((ord("c"),), complete=True))

    texts, ends, seconds, backend = played(
        lambda request, prompt: prompt * 2,
        request(1, ids=(ord("a"),), complete=False),
        request(2, ids=(ord("z"),)),
        during=fill_later,
        prompt="tokens",
        max_running=1,
    )
    assert texts == {1: "abcabc", 2: "zz"}
    assert seconds == 10
    ledger = ends[1].ledger
    assert ledger.completed_at_s - ledger.received_at_s == 10
    assert ledger.queue_s == 0
    assert len(backend.seen.fills) == 2


def test_a_deadline_closes_what_asked_for_it():
    """Two steps ahead of it, like the embedded engine; `raise` is left to the runtime."""

    async def told(backend):
        facts = SchedulingInfo(RequestId(1), demanded=True, deadline_at_s=1_003.0)
        backend.update((facts,))

    texts, ends, seconds, _ = played(
        lambda request, prompt: "x" * 40,
        request(1, on_limit="close"),
        request(2, deadline_at_s=1_003.0),
        during=told,
        decode_tokens_per_s=10,
    )
    assert (ends[1].reason, ends[1].closed_early) == ("length", True)
    assert len(texts[1]) in (28, 29)  # a step that ends on the instant may count
    assert (ends[2].reason, len(texts[2])) == ("stop", 40)
    assert seconds == pytest.approx(4)


SCHEMA = '{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}},'
SCHEMA += '"required":["a"],"additionalProperties":false}'
JSON = ConstraintSpec("json", SCHEMA)


def test_constraints_hold_for_scripts_too():
    texts, ends, _, _ = played(
        ['{"a":[1,2]}', '{"a": "no"}', '{"a":[1'], *(request(n, constraint=JSON) for n in (1, 2, 3))
    )
    assert (ends[1].reason, texts[1]) == ("stop", '{"a":[1,2]}')
    assert ends[2].error.type == ends[3].error.type == "RequestRejected"
    assert """goes wrong at ' "no"}' after '{"a":'""" in ends[2].error.message
    assert "is not whole" in ends[3].error.message


def test_a_limit_closes_a_constrained_script():
    sampling = SamplingParams(max_tokens=12)
    texts, ends, _, _ = played(
        lambda request, prompt: '{"a":[1,22,333,4444]}',
        request(1, constraint=JSON, sampling=sampling, on_limit="close"),
        request(2, constraint=JSON, sampling=sampling),
        request(3, constraint=JSON, sampling=SamplingParams(max_tokens=5), on_limit="close"),
    )
    assert (ends[1].reason, ends[1].closed_early) == ("length", True)
    assert json.loads(texts[1])["a"][0] == 1
    assert len(texts[1]) <= 12
    assert (ends[2].reason, ends[2].closed_early) == ("length", False)
    assert texts[2] == '{"a":[1,22,3'
    assert "max_tokens=5" in ends[3].error.message


def test_a_deadline_closes_a_constrained_script():
    texts, ends, _, _ = played(
        ['{"a":[1,22,333,4444]}'],
        request(1, constraint=JSON, on_limit="close", deadline_at_s=1_010.0),
        decode_tokens_per_s=1,
    )
    assert ends[1].closed_early
    assert texts[1].startswith('{"a":[1')
    assert json.loads(texts[1])["a"]
    assert ends[1].ledger.finished_at_s <= 1_010.0


def test_cancelling_ends_at_the_next_step():
    async def cancel(backend):
        await anyio.sleep(2.5)
        backend.cancel(RequestId(1), "lost the race")

    texts, ends, seconds, backend = played(
        ["abcdef"], request(1), during=cancel, decode_tokens_per_s=1
    )
    assert texts == {1: "ab"}
    assert ends[1].reason == "cancelled"
    assert seconds == 3
    assert backend.seen.cancels == {1: "lost the race"}


def test_a_scripted_error_ends_the_request():
    texts, ends, _, _ = played([Reply("half", RequestRejected("no"))], request(1))
    assert texts == {1: "half"}
    assert (ends[1].reason, ends[1].error.type) == ("failed", "RequestRejected")


def test_a_lost_engine_tells_what_is_lost():
    async def main():
        backend = ScriptedBackend(["abc", "d"], clock=LoopClock(), decode_tokens_per_s=1)
        await backend.start()
        backend.submit(request(1))
        await anyio.sleep(1.5)
        backend.lose_engine()
        backend.submit(request(2))
        seen: list[tuple[object, ...]] = []
        async for event in backend.events():
            if isinstance(event, BackendDown):
                seen.append(("down", event.lost, event.restarting))
            else:
                seen.append(("step", event.deltas[0].request_id, bool(event.ends)))
                if event.ends:
                    break
        await backend.aclose()
        return seen

    assert run_virtual(main) == [("step", 1, False), ("down", (1,), True), ("step", 2, True)]


def test_calls_are_written_in_a_frame():
    text = calls_text(("a", {"x": 1}), ("b", {}))
    assert text == '[{"name":"a","arguments":{"x":1}},{"name":"b","arguments":{}}]'
