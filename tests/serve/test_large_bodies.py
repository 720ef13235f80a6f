"""Large and constrained bodies are read in processes that can be killed, in fair turns."""

import asyncio
import json
import os
import signal
import subprocess
import threading
from pathlib import Path

import anyio
import pytest

from agentrt.app import open_runtime
from agentrt.base.errors import InternalError
from agentrt.base.segments import PromptIds
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.serve import ServeConfig, serving
from agentrt.serve import reader_wire as wire
from agentrt.serve.api_keys import Tenant
from agentrt.serve.body_reader import BodyReader, TooCostlyToRead
from agentrt.serve.body_readers import BodyReaders
from agentrt.serve.body_routes import body_request, generation_of
from agentrt.serve.fair_turns import FairTurns
from agentrt.serve.refusal import RequestRefused
from agentrt.serve.request_body import BodyMemory
from agentrt.serve.request_terms import RequestTerms
from agentrt.tools.workers import running_calls

LONG = "A word of many. " * 550
FORM = {"type": "json_schema", "json_schema": {"schema": {"enum": ["yes", "no"]}}}


def body(text, **fields):
    messages = [{"role": "user", "content": text}]
    return json.dumps({"model": "tiny", "messages": messages, "temperature": 0, **fields}).encode()


@pytest.fixture(scope="module")
def reader(codec):
    model = wire.ReaderModel(codec.path, codec.fingerprint, ("tiny",), codec.window_tokens)
    reader = BodyReader(model)
    yield reader
    reader.close()


def read(reader, content, is_abandoned=None):
    return reader.read("chat", content, "", is_abandoned or threading.Event())


def test_a_body_is_read_as_it_would_be_here(reader, codec):
    content = body(LONG, response_format=FORM, stream=True, stop=["x"], seed=2**60, user="me")
    there = read(reader, content)
    here = generation_of(body_request("chat", content), ("tiny",), codec, codec.window_tokens)
    assert prompt_segments(there.chat) == [
        PromptIds(codec.encode((), prompt_segments(here.chat)).token_ids)
    ]
    assert there.output == here.output
    assert {**there.options, "stop": tuple(there.options["stop"])} == here.options
    assert there.terms == here.terms == RequestTerms(model="tiny", user="me", stream=True)


@pytest.mark.parametrize(
    ("content", "status", "word"),
    [
        (b"{" * 9_000, 400, "not JSON"),
        (body(LONG, top_k=-1), 400, "top_k"),
        (body(LONG).replace(b"tiny", b"huge"), 404, "huge"),
        (body("a" * 4_000_000), 400, "bytes"),
        (body("a " * 20_000), 400, "tokens"),
        (body(LONG, structured_outputs={"regex": "("}), 400, "regex"),
    ],
)
def test_what_is_refused_is_refused_with_its_reason(content, status, word, reader):
    with pytest.raises(RequestRefused, match=word) as refused:
        read(reader, content)
    assert refused.value.status == status


def test_reading_that_takes_too_much_time_ends_its_process_alone(codec):
    model = wire.ReaderModel(codec.path, codec.fingerprint, ("tiny",), 0, cpu_s=0.05)
    reader = BodyReader(model)
    with pytest.raises(TooCostlyToRead):
        read(reader, body("a" * 2_000_000))
    assert not reader.is_warm


def test_a_process_that_was_killed_is_replaced(reader):
    read(reader, body(LONG))
    os.kill(reader.pid, signal.SIGKILL)
    os.waitid(os.P_PID, reader.pid, os.WEXITED | os.WNOWAIT)
    assert prompt_segments(read(reader, body(LONG)).chat)


def test_a_process_that_stops_is_killed_for_a_client_that_leaves(reader):
    read(reader, body(LONG))
    os.kill(reader.pid, signal.SIGSTOP)
    is_abandoned = threading.Event()
    is_abandoned.set()
    with pytest.raises(RequestRefused, match="too busy") as refused:
        read(reader, body(LONG), is_abandoned)
    assert refused.value.status == 503


def readers_here():
    """Ids of the processes of this one that read bodies."""
    command = ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {int(line.split()[0]) for line in lines if "reader_child" in line}


@pytest.mark.parametrize("fields", [{"text": LONG}, {"response_format": FORM}])
def test_others_are_served_while_a_body_is_read(fields, portal, own_server_url, wire):
    async def main():
        found = []
        async with wire.client(own_server_url) as client:

            async def post():
                question = wire.body(**fields)
                found.append(await client.post("/chat/completions", json=question))

            await post()
            (answered,) = found
            assert answered.status_code == 200
            stopped = readers_here()
            assert stopped
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(post)
                small = await client.post("/chat/completions", json=wire.body())
                assert small.status_code == 200
                assert found == [answered]
                for pid in stopped:
                    os.kill(pid, signal.SIGCONT)
            return found[1].status_code

    assert portal.call(main) in (200, 503)


class FakeReader(BodyReader):
    """A reader that waits to be let go on."""

    def __init__(self, error=None):
        super().__init__(wire.ReaderModel(Path(), "", ("tiny",), 0))
        self.error = error
        self.seen = []
        self.go_on = threading.Event()
        self.begun = threading.Event()

    def read(self, route, content, cache_salt, is_abandoned):
        self.seen.append(content)
        self.begun.set()
        self.go_on.wait()
        self.was_abandoned = is_abandoned.is_set()
        if self.error is not None:
            raise self.error
        return content


def test_requests_wait_for_the_process_that_starts():
    """A request that comes while the first process starts starts no other."""
    events = []

    class Starting(FakeReader):
        def start(self):
            self.begun.set()
            self.go_on.wait()
            events.append("started")

        def read(self, route, content, cache_salt, is_abandoned):
            events.append(content)
            return content

    first, second = Starting(), Starting()
    readers = BodyReaders([first, second])

    async def main():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(readers.prewarm)
            while not first.begun.is_set():
                await anyio.lowlevel.checkpoint()
            tasks.start_soon(readers.read, "chat", b"one", Tenant("a"))
            await anyio.wait_all_tasks_blocked()
            assert running_calls(asyncio.get_running_loop()) == 1
            first.go_on.set()

    anyio.run(main)
    assert events == ["started", b"one"]
    assert not second.begun.is_set()


def test_a_process_that_does_not_start_is_started_by_the_first_request():
    class Failing(FakeReader):
        def start(self):
            raise InternalError("no process")

    reader = Failing()
    reader.go_on.set()
    readers = BodyReaders([reader])

    async def main():
        await readers.prewarm()
        return await readers.read("chat", b"one", Tenant("a"))

    assert anyio.run(main) == b"one"


def test_a_server_starts_the_process_of_constrained_requests(portal, tiny, wire):
    """It is there before the first request, which starts no other."""

    async def main():
        config = ServeConfig("tiny", port=0)
        opening = open_runtime(engine=tiny, place="thread")
        before = readers_here()
        with anyio.fail_after(300):
            async with serving(config, opening, prewarm=True) as url:
                while not (started := readers_here() - before):
                    await anyio.lowlevel.checkpoint()
                async with wire.client(url) as client:
                    question = wire.body(response_format=FORM)
                    answered = await client.post("/chat/completions", json=question)
                return started, answered.status_code, readers_here() - before

    started, status, after = portal.call(main)
    assert status == 200
    assert len(started) == 1
    assert after == started


def test_what_ended_a_process_is_refused_at_once_the_second_time():
    reader = FakeReader(TooCostlyToRead())
    reader.go_on.set()
    readers = BodyReaders([reader])

    async def main():
        for _ in range(3):
            with pytest.raises(RequestRefused, match="too long") as refused:
                await readers.read("chat", b"bad", Tenant("a"))
            assert refused.value.status == 400

    anyio.run(main)
    assert reader.seen == [b"bad"]


def test_a_client_that_leaves_stops_the_reading_of_its_body():
    reader = FakeReader()
    readers = BodyReaders([reader])

    async def main():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(readers.read, "chat", b"one", Tenant("a"))
            while not reader.begun.is_set():
                await anyio.lowlevel.checkpoint()
            assert len(readers) == 1
            tasks.cancel_scope.cancel()
        assert len(readers) == 0
        reader.go_on.set()
        return await readers.read("chat", b"two", Tenant("a"))

    assert anyio.run(main) == b"two"
    assert reader.seen == [b"one", b"two"]


def test_a_full_queue_is_told_to_come_back():
    reader = FakeReader()
    readers = BodyReaders([reader], most_waiting=2)

    async def main():
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(readers.read, "chat", b"x", Tenant("a"))
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(RequestRefused, match="come back") as refused:
                await readers.read("chat", b"x", Tenant("a"))
            tasks.start_soon(readers.read, "chat", b"other", Tenant("b"))  # below its share
            await anyio.wait_all_tasks_blocked()
            reader.go_on.set()
        return refused.value

    refused = anyio.run(main)
    assert (refused.status, refused.headers()) == (503, {"retry-after": "1"})
    assert reader.seen == [b"x", b"other", b"x"]


def test_turns_go_to_the_tenant_that_has_the_fewest():
    async def main():
        turns, order = FairTurns(2), []

        async def take(tenant):
            await turns.take(tenant)
            order.append(tenant)

        async with anyio.create_task_group() as tasks:
            for tenant in "aaaabbc":
                tasks.start_soon(take, tenant)
                await anyio.wait_all_tasks_blocked()
            for tenant in "aabcaba":
                turns.give_back(tenant)
                await anyio.wait_all_tasks_blocked()
        return "".join(order)

    assert anyio.run(main) == "aabcaba"


def test_a_turn_that_is_given_up_goes_to_the_next():
    async def main():
        turns = FairTurns(1)
        await turns.take("a")
        waiting = asyncio.ensure_future(turns.take("b"))
        await asyncio.sleep(0)
        turns.give_back("a")  # it is b's, which has not noticed
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await turns.take("c")

    anyio.run(main)


def test_memory_of_bodies_is_shared():
    memory = BodyMemory(100)
    memory.grow("a", 90)
    with pytest.raises(RequestRefused):
        memory.grow("a", 20)
    memory.grow("b", 40)  # below its share
    with pytest.raises(RequestRefused):
        memory.grow("b", 20)
    memory.shrink("a", 90)
    memory.grow("b", 20)
    memory.shrink("b", 60)
    assert memory.held_bytes == 0
