"""Whether a server, asked by a plain client, reaches what its own engine can do.

A peer that is slow because it is asked badly is no peer. So the same batch is computed twice, in
turns: once by the server's engine alone, fed with token ids through its own interface (as in
`agentrt bench engine`), and once by the client over HTTP, all at once. What the server needs for
HTTP, queueing, sampling and text may cost a tenth; where it costs more, nothing is compared.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from random import Random
from statistics import median
from typing import Any

from agentrt.analysis.statistics import interval
from agentrt.base.record import record
from agentrt.base.segments import Close, Open, Text
from agentrt.lab.arms.peer_files import PeerFiles
from agentrt.lab.arms.program_arm import OpenPlayer
from agentrt.lab.arms.server_process import ServerPlan
from agentrt.lab.arms.servers import Served, gguf_of
from agentrt.lab.arms.wire import CallLine, NodeLine, ProgramLine, TextLine
from agentrt.lab.bench.engine.open_arms import OpenArm
from agentrt.lab.bench.engine.points import PAGE_TOKENS, SweepPoint
from agentrt.lab.bench.engine.variants import Arm, our_arm
from agentrt.lab.errors import BenchFailed
from agentrt.lab.workloads.text import words_of
from agentrt.prompt import Codec

LEAST_SHARE = 0.9
_TEMPLATE_TOKENS = 64  # at most, beside a prompt's own text
_LEAST_NEW_TOKENS, _MOST_NEW_TOKENS = 64, 512


@record
class Reach:
    """What a server reaches of its engine's own rate, with one batch.

    Attributes:
        server: Its plan's name.
        batch: Requests at once.
        prompt_tokens: Of each.
        new_tokens: Of each.
        direct_s: How long the engine alone took, one figure a round.
        served_s: How long the client waited in the same round.
    """

    server: str
    batch: int
    prompt_tokens: int
    new_tokens: int
    direct_s: tuple[float, ...]
    served_s: tuple[float, ...]

    @property
    def share(self) -> float:
        """Of the direct rate that the client saw, the median over rounds."""
        pairs = zip(self.direct_s, self.served_s, strict=True)
        return median(direct / served for direct, served in pairs)

    @property
    def is_clear(self) -> bool:
        """Whether chance leaves no doubt of which side of the least share it lies on."""
        pairs = zip(self.direct_s, self.served_s, strict=True)
        found = interval([direct / served for direct, served in pairs], median)
        return not found.low < LEAST_SHARE <= found.high

    @property
    def holds(self) -> bool:
        """Whether the server may be compared."""
        return self.share >= LEAST_SHARE

    def check(self) -> None:
        """Refuse to compare where it does not.

        Raises:
            BenchFailed: It does not.
        """
        if not self.holds:
            raise BenchFailed(
                f"{self.server} reaches {self.share:.0%} of what its engine does by itself",
                hint=f"Nothing is compared below {LEAST_SHARE:.0%}: see what holds it back",
            )


def measure_reach(
    player: OpenPlayer,
    plan: ServerPlan,
    served: Served,
    files: PeerFiles,
    *,
    prompt_tokens: int = 128,
    batch: int = 0,
    lasts_s: float = 5.0,
    repeats: int = 7,
) -> Reach:
    """Play one batch on a server and on its engine alone, round by round; who begins changes.

    A rate is meant, so a quick model writes longer outputs: what is paid once a batch, for its
    requests to come one after the other, weighs as little as it does in a server that is busy.
    Where the rounds leave doubt of the verdict there are up to twice as many.

    Args:
        player: A plain client of the server.
        plan: Of the server.
        served: What it serves.
        files: What peers run on.
        prompt_tokens: Of each request's own text, less where the memory is small.
        batch: Requests at once; 0 has one for each of the server's slots.
        lasts_s: How long the engine should take for a batch, roughly.
        repeats: Rounds that count at the least, after one that tells how long outputs are to be
            and one of that length, which warm.

    Raises:
        BenchFailed: One of them does not work.
    """
    batch = batch or served.slots
    room = served.kv_tokens // batch - _TEMPLATE_TOKENS
    prompt_tokens = max(1, min(prompt_tokens, room - _LEAST_NEW_TOKENS))
    most_tokens = max(_LEAST_NEW_TOKENS, min(_MOST_NEW_TOKENS, room - prompt_tokens))
    row = SweepPoint(batch, prompt_tokens + _TEMPLATE_TOKENS, most_tokens, 0, served.dtype)
    direct = OpenArm(direct_arm(plan, served, files, row))
    try:
        turns = _Turns(direct, player, served, batch, prompt_tokens)
        took_s, _ = turns.play(0, _LEAST_NEW_TOKENS)
        wanted = round(_LEAST_NEW_TOKENS * lasts_s / took_s)
        new_tokens = max(_LEAST_NEW_TOKENS, min(most_tokens, wanted))
        if new_tokens > _LEAST_NEW_TOKENS:
            turns.play(1, new_tokens)
        return _measured(turns, plan, new_tokens, repeats)
    finally:
        direct.close()


def _measured(turns: _Turns, plan: ServerPlan, new_tokens: int, repeats: int) -> Reach:
    direct_s: list[float] = []
    served_s: list[float] = []
    while True:
        alone_s, asked_s = turns.play(2 + len(direct_s), new_tokens)
        direct_s.append(alone_s)
        served_s.append(asked_s)
        found = Reach(
            server=plan.name,
            batch=turns.batch,
            prompt_tokens=turns.prompt_tokens,
            new_tokens=new_tokens,
            direct_s=tuple(direct_s),
            served_s=tuple(served_s),
        )
        rounds = len(direct_s)
        if rounds >= repeats and (found.is_clear or rounds >= 2 * repeats):
            return found


class _Turns:
    """The engine alone and the client, with the same batch one after the other.

    Attributes:
        batch: Requests at once.
        prompt_tokens: Of the last batch's prompts, what the template adds among them.
    """

    def __init__(
        self, direct: OpenArm, player: OpenPlayer, served: Served, batch: int, text_tokens: int
    ) -> None:
        self._direct = direct
        self._player = player
        self.batch = batch
        self._text_tokens = text_tokens
        self._codec = Codec.load(served.model)
        self._words = words_of(served.model / "tokenizer.json")
        self.prompt_tokens = 0

    def play(self, number: int, new_tokens: int) -> tuple[float, float]:
        """Seconds that the engine took, and seconds that the client waited."""
        texts = _texts(self._words, self.batch, self._text_tokens, number)
        prompts = [
            list(self._codec.encode((), (Open("user"), Text(text), Close())).token_ids)
            for text in texts
        ]
        self.prompt_tokens = len(prompts[0])
        asked = {"do": "round", "prompts": prompts, "new_tokens": new_tokens, "shared": 0}
        if number % 2:
            served_s = self._serve(texts, new_tokens)
            return self._compute(asked), served_s
        return self._compute(asked), self._serve(texts, new_tokens)

    def _compute(self, asked: Mapping[str, Any]) -> float:
        began_s = time.perf_counter()
        self._direct.ask({**asked, "ignore_eos": True})  # peers' engines end nothing by themselves
        return time.perf_counter() - began_s

    def _serve(self, texts: Sequence[str], new_tokens: int) -> float:
        (told,) = self._player.play([_program(texts, new_tokens)])
        return told["ended_s"] - told["arrived_s"]


def direct_arm(plan: ServerPlan, served: Served, files: PeerFiles, row: SweepPoint) -> Arm:
    """The engine of a server without the server."""
    if plan.kind == "ours":
        return our_arm([row], served.model, {"policy": "fcfs", "kv_pages": row.pages})
    threads = plan.about["threads"]
    settings: Mapping[str, Any] = {"threads": threads, "dtype": row.dtype}
    if plan.kind == "llama-server":
        return Arm(
            engine="llama.cpp",
            variant=plan.variant,
            command=(str(files.python), str(files.script("llama_cpp_arm.py"))),
            settings={
                **settings,
                "model": str(gguf_of(served, files)),
                "batch": row.batch,
                "unified": "--kv-unified" in plan.command,
                "context_tokens": served.kv_tokens,
            },
            env={"LLAMA_CPP_LIB_PATH": str(files.libraries)},
        )
    return Arm(
        engine="hf-cb",
        variant=plan.variant,
        command=(str(files.python), str(files.script("hf_arm.py"))),
        settings={
            **settings,
            "model": str(served.model),
            "device": "cpu",
            "continuous": True,
            "kv_tokens": served.kv_tokens // PAGE_TOKENS * PAGE_TOKENS,
        },
        env=plan.env,
    )


def _texts(words: Sequence[str], batch: int, tokens: int, at_round: int) -> list[str]:
    """Prompts that nothing has been computed of."""
    draw = Random(f"reach {at_round}")
    return ["".join(draw.choices(words, k=tokens)) for _ in range(batch)]


def _program(texts: Sequence[str], new_tokens: int) -> ProgramLine:
    """All of the batch as one program."""
    names = [f"call{at}" for at in range(len(texts))]
    nodes: list[NodeLine] = [
        CallLine(
            kind="call",
            name=name,
            site="reach",
            needs=[],
            messages=[("user", [TextLine(text=text)])],
            tokens=new_tokens,
        )
        for name, text in zip(names, texts, strict=True)
    ]
    return {
        "name": "reach/0",
        "shape": "reach",
        "tenant": "",
        "at_s": 0.0,
        "nodes": nodes,
        "result": names,
        "quorum": None,
    }
