"""Every kind of backend, started once, and a bench that plays requests on it.

`scripted` answers from a script, `thread` and `process` are the embedded engine, `remote` is a
client of a real server in another process, `remote-plain` of one that enforces nothing, and
`own-server` a client of our own server. `warming` is one that sends it token ids and takes holes.
"""

import itertools
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.from_thread
import pytest

from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.base.segments import Close, Open, Text, ToolSchema
from agentrt.engine.process.backend import EmbeddedBackend, Placement
from agentrt.prompt import Codec
from agentrt.protocol.backend import Backend, GenerateRequest, MessagePrompt, TokenPrompt
from agentrt.protocol.step_output import BackendDown, End, StepDone
from agentrt.remote import RemoteBackend
from agentrt.remote.warming.warming_backend import WarmingBackend
from agentrt.testing import ScriptedBackend, calls_text

KINDS = (
    "scripted",
    "scripted-messages",
    "thread",
    "process",
    "remote",
    "remote-plain",
    "own-server",
    "warming",
)
PATIENCE_S = 300  # a hang ends the test; nothing is measured

SCHEMA = {
    "type": "object",
    "properties": {
        "colour": {"type": "string", "enum": ["red", "green", "blue"]},
        "amounts": {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
    },
    "required": ["colour", "amounts"],
    "additionalProperties": False,
}
PAINT = ToolSchema("paint", "Paints a wall.", SCHEMA)


@dataclass(frozen=True)
class Case:
    """One constraint: how it is met, and how that is told from the text."""

    spec: ConstraintSpec
    answer: Callable[[Backend], str]
    holds: Callable[[str, Backend], bool]


def is_paint(value: Any) -> bool:
    return list(value) == ["colour", "amounts"] and value["colour"] in ("red", "green", "blue")


def are_calls(text: str, backend: Backend) -> bool:
    """Whether `text` is one or two calls in the backend's own frame, and nothing else."""
    frame = backend.capabilities.call_frame
    inner = text.removeprefix(frame.first).removesuffix(frame.last)
    opening = f"{frame.before}paint{frame.middle}"
    calls = inner.removeprefix(opening).removesuffix(frame.after)
    parts = calls.split(f"{frame.after}{frame.between}{opening}")
    return len(text) > len(calls) and len(parts) <= 2 and all(map(is_paint, map(json.loads, parts)))


VALUE = {"colour": "red", "amounts": [1]}
CASES = {
    "json": Case(
        ConstraintSpec("json", json.dumps(SCHEMA, separators=(",", ":"))),
        lambda backend: json.dumps(VALUE, separators=(",", ":")),
        lambda text, backend: is_paint(json.loads(text)),
    ),
    "choice": Case(
        ConstraintSpec("choice", options=("left", "right", "lefty")),
        lambda backend: "lefty",
        lambda text, backend: text in ("left", "right", "lefty"),
    ),
    "regex": Case(
        ConstraintSpec("regex", "[A-F]{3}-[0-9]{2,4}"),
        lambda backend: "ABC-123",
        lambda text, backend: re.fullmatch("[A-F]{3}-[0-9]{2,4}", text) is not None,
    ),
    "grammar": Case(
        ConstraintSpec("grammar", 'start: "a" start "b" | "c"\n'),
        lambda backend: "aacbb",
        lambda text, backend: (
            re.fullmatch("(a*)c(b*)", text) is not None and text.count("a") == text.count("b")
        ),
    ),
    "calls": Case(
        ConstraintSpec("calls", tools=(PAINT,), max_calls=2),
        lambda backend: calls_text(("paint", VALUE), frame=backend.capabilities.call_frame),
        are_calls,
    ),
}


@dataclass
class Outcome:
    """What one request brought."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    deltas: int = 0
    end: End | None = None

    @property
    def over(self) -> End:
        assert self.end is not None
        return self.end


class Bench:
    """One started backend, and requests for it."""

    numbers = itertools.count(1)

    def __init__(self, backend: Backend, codec: Codec | None) -> None:
        self.backend = backend
        self.codec = codec
        self.steps: list[StepDone] = []

    @property
    def can(self) -> Any:
        return self.backend.capabilities

    def request(self, text: str = "Say something.", **options: Any) -> GenerateRequest:
        sampling = SamplingParams(
            **{"max_tokens": 12, "temperature": 1.0} | options.pop("sampling", {})
        )
        number = next(self.numbers)
        spec = options.get("constraint")
        return GenerateRequest(
            request_id=RequestId(number),
            run_id=RunId("0" * 16),
            node_id=NodeId(f"node{number}"),
            site="contract.py:1",
            prompt=options.pop("prompt", None) or self.prompt(text),
            sampling=sampling,
            keep_special=spec is not None and spec.kind == "calls",
            **options,
        )

    def prompt(self, text: str) -> TokenPrompt | MessagePrompt:
        segments = (Open("user"), Text(text), Close())
        if self.codec is None:
            return MessagePrompt(segments)
        return TokenPrompt(self.codec.encode((), segments).token_ids)

    async def play(
        self,
        *requests: GenerateRequest,
        on_step: Callable[[StepDone], None] | None = None,
        submit: bool = True,
    ) -> list[Outcome]:
        """Submit, and read until all have ended; what no backend may ever do fails here."""
        outcomes = {request.request_id: Outcome() for request in requests}
        if submit:
            for request in requests:
                self.backend.submit(request)
        with anyio.fail_after(PATIENCE_S):
            async with aclosing(self.backend.events()) as events:  # type: ignore[type-var]
                while any(outcome.end is None for outcome in outcomes.values()):
                    self._note(await anext(events), outcomes)
                    if on_step is not None:
                        on_step(self.steps[-1])
        return list(outcomes.values())

    def _note(self, event: StepDone | BackendDown, outcomes: dict[RequestId, Outcome]) -> None:
        assert isinstance(event, StepDone), event
        self.steps.append(event)
        for delta in event.deltas:
            outcome = outcomes[delta.request_id]
            assert outcome.end is None, "a delta after the end"
            outcome.text += delta.text
            outcome.token_ids += delta.token_ids
            outcome.deltas += 1
        for end in event.ends:
            assert outcomes[end.request_id].end is None, "a second end"
            assert (end.reason == "failed") == (end.error is not None)
            outcomes[end.request_id].end = end


def script_for(backend_of: list[Backend]) -> Callable[[GenerateRequest, str], str]:
    def script(request: GenerateRequest, prompt: str) -> str:
        for case in CASES.values():
            if request.constraint == case.spec:
                return case.answer(backend_of[0])
        if request.scored and request.constraint is not None:
            return request.constraint.options[0]
        # Sampled, like a model's: the seed decides.
        return " ".join(f"word{(request.sampling.seed + at) % 7}" for at in range(2000))

    return script


@pytest.fixture(scope="session")
def make_bench(request: pytest.FixtureRequest, tiny: EngineConfig) -> Callable[[str], Bench]:
    """Makes a bench of a kind around a backend that is not started."""
    codec = Codec.load(tiny.model_path)
    clock = MonotonicClock()

    def make(kind: str) -> Bench:
        if kind.startswith("scripted"):
            spoken = codec if kind == "scripted" else None
            itself: list[Backend] = []
            scripted = ScriptedBackend(script_for(itself), clock=clock, codec=spoken, seeds=True)
            itself.append(scripted)
            return Bench(scripted, spoken)
        if kind == "own-server":
            url = request.getfixturevalue("own_server_url")
            return Bench(RemoteBackend(url, clock=clock), None)
        if kind == "warming":
            url = request.getfixturevalue("own_server_url")
            served = RemoteEngineConfig(kind="agentrt", address=url, model="tiny")
            remote = RemoteBackend(served, clock=clock, codec=codec)
            return Bench(WarmingBackend(remote, clock, 16), codec)
        if kind.startswith("remote"):
            url = request.getfixturevalue("server_url")
            model = kind.replace("remote", "tiny")
            return Bench(RemoteBackend(url, model=model, clock=clock), None)
        place: Placement = "thread" if kind == "thread" else "process"
        return Bench(EmbeddedBackend(tiny, clock, place=place), codec)

    return make


@pytest.fixture(scope="session")
def benches(
    portal: anyio.from_thread.BlockingPortal,
    make_bench: Callable[[str], Bench],
    server: subprocess.Popen[str],
) -> Iterator[Callable[[str], Bench]]:
    """Started benches by kind, one each for the session; other processes begin to load now."""
    process = make_bench("process")
    assert isinstance(process.backend, EmbeddedBackend)
    portal.call(process.backend.launch)
    benches = {"process": process}
    started: set[str] = set()

    def get(kind: str) -> Bench:
        if kind not in started:
            benches.setdefault(kind, make_bench(kind))
            portal.call(benches[kind].backend.start)
            started.add(kind)
        return benches[kind]

    yield get
    for bench in benches.values():
        portal.call(bench.backend.aclose)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def bench(kind: str, benches: Callable[[str], Bench]) -> Bench:
    found = benches(kind)
    found.steps.clear()
    return found


@pytest.fixture(scope="session")
def cases() -> dict[str, Case]:
    return CASES


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture
def play(portal: anyio.from_thread.BlockingPortal, bench: Bench) -> Callable[..., Any]:
    """Plays requests on the bench's own event loop, from a plain test."""

    def run(*requests: GenerateRequest, **options: Any) -> list[Outcome]:
        return portal.call(lambda: bench.play(*requests, **options))

    return run
