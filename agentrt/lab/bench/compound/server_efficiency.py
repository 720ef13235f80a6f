"""Server efficiency: the share of its engine's own rate that a server reaches for plain clients.

A peer that is slow because it is used badly is no peer. So the same batch is computed twice, in
turns: once by the server's engine alone, from token ids through its own interface (as in
`agentrt bench engine`), and once for the client over HTTP, all requests at once. HTTP, queueing,
sampling and text may cost a tenth; if they cost more, nothing is compared.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from random import Random
from statistics import median

from agentrt.analysis.statistics import interval
from agentrt.base.record import record
from agentrt.base.segments import Close, Open, Text
from agentrt.lab.arms.arm_process import Arm, ArmProcess
from agentrt.lab.arms.engine_arms import llama_cpp_arm, transformers_arm
from agentrt.lab.arms.llama_server import gguf_of, weights_of_kind
from agentrt.lab.arms.openvino_server import openvino_engine
from agentrt.lab.arms.peer_files import PeerFiles
from agentrt.lab.arms.program_arm import play
from agentrt.lab.arms.served import PAGE_TOKENS, Served
from agentrt.lab.arms.server_process import ServerPlan
from agentrt.lab.arms.servers import OUR_SERVERS
from agentrt.lab.arms.vllm_server import vllm_engine
from agentrt.lab.arms.wire import NodeLine, ProgramLine
from agentrt.lab.bench.engine.points import SweepPoint
from agentrt.lab.bench.engine.variants import our_arm
from agentrt.lab.workloads.text import words_of
from agentrt.prompt import Codec

LEAST_EFFICIENCY = 0.9
_TEMPLATE_TOKENS = 64  # at most, beside a prompt's own text
_LEAST_NEW_TOKENS, _MOST_NEW_TOKENS = 64, 512


@record
class ServerEfficiency:
    """A server beside its own engine, with one batch.

    Attributes:
        server: Name of the server's plan.
        batch: Requests at once.
        prompt_tokens: Prompt tokens of each request.
        new_tokens: Output tokens of each request.
        direct_s: Seconds of the engine alone, one figure a round.
        served_s: Seconds that the client waited in the same round.
    """

    server: str
    batch: int
    prompt_tokens: int
    new_tokens: int
    direct_s: tuple[float, ...]
    served_s: tuple[float, ...]

    @property
    def shares(self) -> list[float]:
        """Share of the engine's rate that the client saw, by round."""
        pairs = zip(self.direct_s, self.served_s, strict=True)
        return [direct / served for direct, served in pairs]

    @property
    def share(self) -> float:
        """Median share over rounds."""
        return median(self.shares)

    @property
    def is_clear(self) -> bool:
        """True if chance leaves no doubt on which side of the limit the share lies."""
        found = interval(self.shares, median)
        return not found.low < LEAST_EFFICIENCY <= found.high

    @property
    def holds(self) -> bool:
        """True if the server may be compared."""
        return self.share >= LEAST_EFFICIENCY


def measure_efficiency(
    client: ArmProcess,
    plan: ServerPlan,
    served: Served,
    files: PeerFiles,
    *,
    prompt_tokens: int = 128,
    batch: int = 0,
    lasts_s: float = 5.0,
    repeats: int = 7,
) -> ServerEfficiency:
    """Play one batch on a server and on its engine alone, round by round; the first changes.

    A rate is meant, so a quick model writes longer outputs: a cost that is paid once a batch, since
    its requests come one after the other, then weighs as little as in a busy server. If the rounds
    leave doubt of the verdict there are up to twice as many.

    Args:
        client: A plain client of the server.
        plan: Plan of the server.
        served: Model and memory.
        files: Files of the peers.
        prompt_tokens: Length of each request's own text, less if the memory is small.
        batch: Requests at once; 0 has one for each of the server's slots.
        lasts_s: Seconds that the engine should take for a batch, roughly.
        repeats: Least number of rounds that count, after one that measures how long outputs have to
            be and one of that length, which warm up.

    Raises:
        BenchFailed: One of them does not work.
    """
    batch = batch or served.slots
    room = served.kv_tokens // batch - _TEMPLATE_TOKENS
    prompt_tokens = max(1, min(prompt_tokens, room - _LEAST_NEW_TOKENS))
    most_tokens = max(_LEAST_NEW_TOKENS, min(_MOST_NEW_TOKENS, room - prompt_tokens))
    point = SweepPoint(batch, prompt_tokens + _TEMPLATE_TOKENS, most_tokens, 0, served.dtype)
    with closing(ArmProcess(direct_arm(plan, served, files, point))) as direct:
        words = words_of(served.model / "tokenizer.json")
        turns = _Turns(direct, client, Codec.load(served.model), words, batch, prompt_tokens)
        took_s, _ = turns.play(0, _LEAST_NEW_TOKENS)
        wanted = round(_LEAST_NEW_TOKENS * lasts_s / took_s)
        new_tokens = max(_LEAST_NEW_TOKENS, min(most_tokens, wanted))
        if new_tokens > _LEAST_NEW_TOKENS:
            turns.play(1, new_tokens)
        rounds: list[tuple[float, float]] = []
        while True:
            rounds.append(turns.play(2 + len(rounds), new_tokens))
            direct_s, served_s = zip(*rounds, strict=True)
            found = ServerEfficiency(
                plan.name, batch, turns.prompt_tokens, new_tokens, direct_s, served_s
            )
            if len(rounds) >= repeats and (found.is_clear or len(rounds) >= 2 * repeats):
                return found


@dataclass
class _Turns:
    """The engine alone and the client, with the same batch one after the other.

    Attributes:
        direct: The engine alone.
        client: The client.
        codec: Codec of the model.
        words: Words that texts are made of.
        batch: Requests at once.
        text_tokens: Length of each request's own text.
        prompt_tokens: Length of the last batch's prompts, template included.
    """

    direct: ArmProcess
    client: ArmProcess
    codec: Codec
    words: Sequence[str]
    batch: int
    text_tokens: int
    prompt_tokens: int = 0

    def play(self, number: int, new_tokens: int) -> tuple[float, float]:
        """Seconds that the engine took, and seconds that the client waited."""
        draw = Random(f"reach {number}")  # a round finds nothing of another in a cache
        texts = ["".join(draw.choices(self.words, k=self.text_tokens)) for _ in range(self.batch)]
        if number % 2:
            served_s = self._serve(texts, new_tokens)
            return self._compute(texts, new_tokens), served_s
        return self._compute(texts, new_tokens), self._serve(texts, new_tokens)

    def _compute(self, texts: Sequence[str], new_tokens: int) -> float:
        chats = ((Open("user"), Text(text), Close()) for text in texts)
        prompts = [list(self.codec.encode((), chat).token_ids) for chat in chats]
        self.prompt_tokens = len(prompts[0])
        batch = {"prompts": prompts, "new_tokens": new_tokens, "shared": 0}
        began_s = time.perf_counter()
        self.direct.ask("round", **batch, ignore_eos=True)  # as peers' engines do
        return time.perf_counter() - began_s

    def _serve(self, texts: Sequence[str], new_tokens: int) -> float:
        (sample,) = play(self.client, [_program(texts, new_tokens)]).samples
        return sample["ended_s"] - sample["arrived_s"]


def direct_arm(plan: ServerPlan, served: Served, files: PeerFiles, point: SweepPoint) -> Arm:
    """The engine of a server without the server."""
    if plan.kind in OUR_SERVERS:
        return our_arm([point], served.model, {"policy": "fcfs"})
    if plan.kind == "vllm":
        return vllm_engine(plan, served, files)
    if plan.kind == "openvino":
        return openvino_engine(plan, served, files)
    threads = plan.about["threads"]
    if plan.kind.startswith("llama-server"):
        return llama_cpp_arm(
            files,
            plan.variant,
            model=str(gguf_of(served, files, weights_of_kind(plan.kind))),
            threads=threads,
            dtype=point.dtype,
            batch=point.batch,
            context_tokens=served.kv_tokens,
            unified="--kv-unified" in plan.command,
        )
    return transformers_arm(
        files,
        plan.variant,
        plan.env,
        threads=threads,
        dtype=point.dtype,
        device="cpu",
        kv_tokens=served.kv_tokens // PAGE_TOKENS * PAGE_TOKENS,
    )


def _program(texts: Sequence[str], new_tokens: int) -> ProgramLine:
    """The batch as one program."""
    nodes: list[NodeLine] = [
        {
            "kind": "call",
            "name": f"call{at}",
            "site": "reach",
            "needs": [],
            "messages": [("user", [{"text": text}])],
            "tokens": new_tokens,
        }
        for at, text in enumerate(texts)
    ]
    return {
        "name": "reach/0",
        "shape": "reach",
        "tenant": "",
        "at_s": 0.0,
        "nodes": nodes,
        "result": [node["name"] for node in nodes],
        "quorum": None,
    }
