"""What the embedded model itself says to prompts of the corpus: the texts that a head learns to foresee."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from batches import encode, marker
from corpus.mix import draw

from agentrt import embedded
from agentrt.base.clock import MonotonicClock
from agentrt.base.config import EngineConfig
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.engine.core import EngineCore
from agentrt.protocol.backend import GenerateRequest, TokenPrompt

AT_ONCE = 32
LONGEST = 400
"""Most tokens of an answer."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """A prompt, and what the model said."""

    prompt: tuple[int, ...]
    said: tuple[int, ...]


def prompts(seed: int, first: int, count: int) -> Iterator[tuple[int, ...]]:
    """The ids of transcripts up to each answer that the model has learned, from `count` of them."""
    for index in range(first, first + count):
        example = draw(seed, index)
        ids = encode(example.text)
        turns = [at for at, one in enumerate(ids) if one == marker("<|assistant|>")]
        for at, learned in zip(turns, example.learn, strict=False):
            if learned:
                yield tuple(ids[: at + 1])


def speak(
    asked: list[tuple[int, ...]], model: Path | None = None, threads: int = 1
) -> list[Spoken]:
    """Answers of the model to prompts, greedily decoded by the engine."""
    path = model or embedded.path()
    core = EngineCore(EngineConfig(path, threads=threads, max_running=AT_ONCE), MonotonicClock())
    said: list[list[int]] = [[] for _ in asked]
    for number, prompt in enumerate(asked):
        core.submit(request_of(number, prompt))
    while core.has_work():
        done = core.step()
        if done is not None:
            for delta in done.deltas:
                said[delta.request_id] += delta.token_ids
    core.close()
    return [Spoken(one, tuple(answer)) for one, answer in zip(asked, said, strict=True) if answer]


def request_of(number: int, prompt: tuple[int, ...]) -> GenerateRequest:
    """The request for a greedy answer to a prompt."""
    return GenerateRequest(
        request_id=RequestId(number),
        run_id=RunId("spoken"),
        node_id=NodeId(f"n{number}"),
        site="spoken",
        prompt=TokenPrompt(prompt),
        sampling=SamplingParams(max_tokens=LONGEST, temperature=0.0),
    )
