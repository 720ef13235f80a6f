"""The cache compiles each constraint once and remembers refusals."""

from __future__ import annotations

import json
import threading

import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.segments import JSON_ARRAY_FRAME, ToolSchema
from agentrt.structured import CompileCache, calls_spec, choice_shape, compile_constraint
from agentrt.structured.call_sets import HEADS, TOOL_GRAMMARS


def specs(count):
    found = [choice_shape(f"a{at}").spec for at in range(count)]
    return [spec for spec in found if spec is not None]


def test_the_same_is_compiled_once(vocab, frame):
    cache = CompileCache()
    first, second = specs(2)
    assert cache.get(first, vocab, frame) is cache.get(first, vocab, frame)
    assert cache.get(second, vocab, frame) is not cache.get(first, vocab, frame)
    assert (cache.counts.compiled, cache.counts.hits, cache.counts.entries) == (2, 2, 2)
    assert cache.counts.size_bytes > 0


def test_the_frame_counts_for_calls_only(vocab, frame):
    cache = CompileCache()
    (spec,) = specs(1)
    assert cache.get(spec, vocab, frame) is cache.get(spec, vocab, JSON_ARRAY_FRAME)


def test_refusals_are_remembered(vocab, frame):
    cache = CompileCache()
    spec = ConstraintSpec("json", source='{"type":"strin"}')
    for _ in range(3):
        with pytest.raises(ConstraintError, match="must be one or more"):
            cache.get(spec, vocab, frame)
    assert cache.counts.compiled == 1


def test_what_is_not_about_the_constraint_is_tried_again(vocab, frame):
    calls = []

    def broken(spec, vocab, frame):
        calls.append(spec)
        raise MemoryError

    cache = CompileCache(compile_one=broken)
    (spec,) = specs(1)
    for _ in range(2):
        with pytest.raises(MemoryError):
            cache.get(spec, vocab, frame)
    assert len(calls) == 2


def test_many_that_ask_at_once_wait_for_one(vocab, frame):
    """The compile waits until all have asked; had any started its own, it would wait for ever."""
    askers = 6
    asked = threading.Barrier(askers)
    compiled_count = []

    def slow(spec, vocab, frame):
        compiled_count.append(spec)
        return compile_constraint(spec, vocab, frame)

    cache = CompileCache(compile_one=slow)
    (spec,) = specs(1)
    found = []

    def ask():
        asked.wait()
        found.append(cache.get(spec, vocab, frame))

    threads = [threading.Thread(target=ask) for _ in range(askers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(compiled_count) == 1
    assert len(set(map(id, found))) == 1


def test_begin_compiles_on_a_thread(vocab, frame):
    cache = CompileCache()
    (spec,) = specs(1)
    future = cache.start_compile(spec, vocab, frame)
    assert future.result() is cache.get(spec, vocab, frame)
    assert cache.start_compile(spec, vocab, frame).done()
    cache.close()


def test_least_recently_used_go_first(vocab, frame):
    cache = CompileCache(max_entries=2)
    one, two, three = specs(3)
    cache.get(one, vocab, frame)
    cache.get(two, vocab, frame)
    cache.get(one, vocab, frame)
    cache.get(three, vocab, frame)
    assert cache.counts.entries == 2
    before = cache.counts.compiled
    cache.get(one, vocab, frame)
    assert cache.counts.compiled == before
    cache.get(two, vocab, frame)
    assert cache.counts.compiled == before + 1


def test_bytes_are_bounded(vocab, frame):
    cache = CompileCache(max_bytes=1)
    for spec in specs(3):
        cache.get(spec, vocab, frame)
    assert cache.counts.entries == 1


def offered(count, changed=""):
    number = {"type": "integer", "minimum": 0}
    names = [f"tool_{index}{changed if index == 3 else ''}" for index in range(count)]
    return [ToolSchema(name, "", {"properties": {"a": number}}) for name in names]


def test_a_changed_tool_compiles_alone(vocab, frame):
    cache = CompileCache()
    for changed, compiled in (("", 12), ("_new", 1), ("", 0)):
        before = TOOL_GRAMMARS.compiled
        spec = calls_spec(offered(12, changed), checks_tools=False)
        cache.start_compile(spec, vocab, frame).result()
        assert TOOL_GRAMMARS.compiled - before == compiled
    cache.close()


def test_a_changed_schema_compiles_no_head(vocab, frame):
    """Heads know names only: a set of which one schema changes compiles one grammar."""
    cache = CompileCache()
    tools = [ToolSchema(f"own_{number}", "", {"properties": {}}) for number in range(40)]
    for most, compiled in ((8, (40, 2)), (9, (1, 0)), (10, (1, 0))):
        tools[7] = ToolSchema("own_7", "", {"properties": {"a": {"maxLength": most}}})
        before = TOOL_GRAMMARS.compiled, HEADS.compiled
        cache.start_compile(calls_spec(tools, checks_tools=False), vocab, frame).result()
        assert (TOOL_GRAMMARS.compiled - before[0], HEADS.compiled - before[1]) == compiled
    cache.close()


def held_tool():
    """A tool with an argument held to many options."""
    options = {"$defs": {"tools:a:0": {"enum": [f"s{index}" for index in range(1_100)]}}}
    symbol = {"properties": {"symbol": {"$ref": "#/$defs/tools:a:0"}}, **options}
    return calls_spec([ToolSchema("a", "", symbol)], checks_tools=False)


@pytest.mark.parametrize(
    "make",
    [
        lambda: calls_spec(offered(40), checks_tools=False),
        held_tool,
        lambda: ConstraintSpec("choice", options=tuple(f"s{index}" for index in range(1_100))),
        lambda: ConstraintSpec("json", json.dumps({"enum": [f"{at:060}" for at in range(1_100)]})),
    ],
)
def test_many_tools_and_options_are_looked_up_in_a_thread(make, vocab, frame):
    """The caller, which may be an event loop, does nothing that grows with them."""
    go_on = threading.Event()

    def waiting(spec, vocab, frame):
        assert go_on.wait(60)
        return compile_constraint(spec, vocab, frame)

    cache = CompileCache(compile_one=waiting)
    (small,) = specs(1)
    cache.start_compile(small, vocab, frame)
    spec = make()
    first = cache.start_compile(spec, vocab, frame)
    assert cache.counts.compiled == 1  # the thread is busy, and the caller has not looked
    go_on.set()
    compiled = first.result()
    assert cache.start_compile(spec, vocab, frame) is first
    again = make()
    assert cache.start_compile(again, vocab, frame).result() is compiled
    assert cache.counts.compiled == 2
    cache.close()


def test_tools_are_checked_when_they_are_compiled(vocab, frame):
    tools = (ToolSchema("sort", "", {"type": "array", "uniqueItems": True}),)
    spec = calls_spec(tools, checks_tools=False)
    with pytest.raises(ConstraintError, match=r"tool sort: .*uniqueItems"):
        CompileCache().start_compile(spec, vocab, frame).result()
