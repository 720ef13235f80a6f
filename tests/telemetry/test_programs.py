"""Every program of `programs/`: its trace is well-formed and Jaeger's walk is its true path."""

import json
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from agentrt import chat, embedded
from agentrt.analysis import Causes, RunRecord, critical_path, slack_s, split
from agentrt.cli.target import find, load, programs_of
from agentrt.prompt import Codec
from agentrt.protocol.events import Event, Observer
from agentrt.runtime import Runtime
from agentrt.telemetry import SpanObserver, build
from agentrt.telemetry.jaeger import jaeger_json
from agentrt.telemetry.resource import resources_of
from agentrt.testing import LoopClock, ScriptedBackend, calls_text, run_virtual
from tests.oracles import jaeger

PROGRAMS = Path(__file__).parents[2] / "programs"
Answer = Callable[[str, str], str]
ORDER = {"name": "A", "email": "a@b.c", "quantity": 3, "item": "lamp", "city": "Oslo"}


@pytest.fixture(scope="module")
def codec() -> Codec:
    return Codec.load(Path(embedded.path()))


def finance(frame: Any) -> Answer:
    calls = [
        ("total_return", {"symbol": symbol, "start": None, "end": None, "months": None})
        for symbol in ("AAPL", "IBM")
    ]
    plan = calls_text(*calls, frame=frame)
    span = {"metric": "total return %", "period": "2000-01 to 2010-03"}
    said = {"figures": [{"symbol": "AAPL", **span, "value": 759.75}], "answer": "AAPL"}
    report = json.dumps(said, separators=(",", ":"))
    return lambda name, prompt: plan if name == "plan" else report


def react(frame: Any) -> Answer:
    search = calls_text(
        ("search", {"query": "Ostrava"}), ("growth", {"old": 1.0, "new": 2.0}), frame=frame
    )
    final = json.dumps({"text": "100 %", "sources": ["Ostrava"]}, separators=(",", ":"))
    return lambda name, prompt: final if "Ostrava" in prompt.partition("q?")[2] else search


def vote(frame: Any) -> Answer:
    numbers = count(1)
    del frame

    def answer(name: str, prompt: str) -> str:
        reasoning = "x" * (next(numbers) * 7 % 11)
        return json.dumps({"reasoning": reasoning, "answer": 85}, separators=(",", ":"))

    return answer


def tree(frame: Any) -> Answer:
    numbers = count(1)
    del frame

    def answer(name: str, prompt: str) -> str:
        n = next(numbers)
        if "0 to 10?" in prompt[-40:]:
            return str(n % 10)
        return "85" if "Answer." in prompt[-40:] else "think " * (n % 4 + 1)

    return answer


def advisor(frame: Any) -> Answer:
    del frame
    answers = {"guard": "yes", "draft": "Buy. " * 30, "decline": "I cannot advise on that."}
    return lambda name, prompt: answers[name]


def extract(frame: Any) -> Answer:
    del frame
    return lambda name, prompt: json.dumps(ORDER, separators=(",", ":"))


CASES: dict[str, tuple[Callable[[Any], Answer], dict[str, Any]]] = {
    "finance": (finance, {"question": "AAPL or IBM?"}),
    "react": (react, {"question": "q?"}),
    "vote": (vote, {"question": "47 + 38?"}),
    "tree": (tree, {"question": "47 + 38?"}),
    "advisor": (advisor, {"history": chat(system="s"), "message": "m"}),
    "extract": (extract, {"text": "3 lamps"}),
}


def test_every_program_is_among_the_cases() -> None:
    files = [path for path in PROGRAMS.glob("*.py") if "@program" in path.read_text("utf-8")]
    assert {path.stem for path in files} == CASES.keys()
    for path in files:
        assert path.stem in programs_of(load(path))


class Seen:
    """Keeps events as they come, for more than one record."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_events(self, events: Sequence[Event]) -> None:
        self.events += events


def run(name: str, codec: Codec, *, decode_tokens_per_s: float) -> RunRecord:
    """The program on a scripted engine, on virtual time."""
    seen = Seen()
    play(name, codec, seen, decode_tokens_per_s)
    record = RunRecord()
    record.on_events(seen.events)
    return record


def play(name: str, codec: Codec, observer: Observer, decode_tokens_per_s: float = 100.0) -> None:
    script, arguments = CASES[name]
    answer, clock = script(codec.call_frame), LoopClock()

    async def main() -> None:
        backend = ScriptedBackend(
            lambda request, prompt: answer(_name_of(request.node_id), prompt),
            clock=clock,
            codec=codec,
            prefill_tokens_per_s=5_000.0,
            decode_tokens_per_s=decode_tokens_per_s,
        )
        backends = {"default": (backend, codec)}
        async with Runtime(backends, clock=clock, observers=[observer]) as runtime:
            await runtime.run(find(str(PROGRAMS / f"{name}.py")), **arguments)

    run_virtual(main)


def _name_of(node_id: str) -> str:
    return node_id.rpartition("/")[2].partition("#")[0]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("decode_tokens_per_s", [100.0, 7_777.0])
def test_trace_is_sound_and_the_walk_is_the_path(
    name: str, decode_tokens_per_s: float, codec: Codec
) -> None:
    record = run(name, codec, decode_tokens_per_s=decode_tokens_per_s)
    document = json.loads(jaeger_json([build(record)], resources_of({})))
    assert jaeger.faults(document) == []
    trace = document["data"][0]
    nodes = {span["spanID"]: jaeger.tags_of(span)["agentrt.node.id"] for span in trace["spans"]}
    drawn = [
        nodes[part.span_id]
        for part in reversed(jaeger.critical_path(trace))
        if part.end_us - part.start_us > 10
    ]
    path = critical_path(record)
    true = [step.node_id for step in path if step.length_s > 10e-6]
    assert _merged(drawn) == _merged(true)
    slack = slack_s(record)
    assert all(
        slack[step.node_id] < 1e-6 for step in path if step.part == "work" and step.item is None
    )


@pytest.mark.parametrize("name", CASES)
def test_split_sums_and_is_attributed(name: str, codec: Codec) -> None:
    record = run(name, codec, decode_tokens_per_s=200.0)
    found = split(record)
    assert sum(found.parts().values()) == pytest.approx(record.compound_s, abs=1e-9)
    assert found.unattributed <= 0.02 * record.compound_s
    assert found.decode > 0.5 * record.compound_s
    assert record.has_after
    causes = Causes(record)
    assert all(node.finished is not None for node in record.nodes.values())
    assert all(causes.ready_at_s(node) >= record.started_at_s for node in record.nodes.values())


@pytest.mark.parametrize("capture", ["NO_CONTENT", "SPAN_ONLY"])
def test_what_was_said_is_told_only_when_asked_for(
    capture: str, codec: Codec, tmp_path: Path
) -> None:
    variable = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
    observer = SpanObserver(folder=tmp_path, environment={variable: capture})
    play("react", codec, observer)
    observer.close()
    (path,) = observer.files.values()
    text = path.read_text("utf-8")
    asked = capture == "SPAN_ONLY"
    assert ("Ostrava" in text) == asked  # a tool's argument, its result, and the answer
    spans = json.loads(text)["data"][0]["spans"]
    keys = {key for span in spans for key in jaeger.tags_of(span)}
    told = {"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.result"}
    assert (told <= keys) == asked
    assert asked or not told & keys
    for span in spans:
        for key in told & jaeger.tags_of(span).keys():
            json.loads(jaeger.tags_of(span)[key])


def _merged(nodes: list[Any]) -> list[Any]:
    return [node for index, node in enumerate(nodes) if not index or nodes[index - 1] != node]
