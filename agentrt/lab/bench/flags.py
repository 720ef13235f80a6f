"""Flags of the commands of `agentrt bench`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from agentrt.base.record import record
from agentrt.lab.flags import (
    RESUME,
    Count,
    HtmlPath,
    JsonPath,
    Repeats,
    Seed,
    Slowdown,
    Tenants,
    Threads,
    numbers,
    rate_factors,
    rate_of,
)
from agentrt.lab.number_bounds import NumberBounds
from agentrt.lab.path_rules import input_folder, output_file
from agentrt.lab.quiet_machine import Busy
from agentrt.lab.resumed_file import ResumedFile

COMPOUND_FILE = ResumedFile(
    "agentrt.bench.compound/2",
    "Give --resume a file of agentrt bench compound, or one that is not there yet",
)
GPU_FILE = ResumedFile("agentrt.bench.gpu/2", "Leave out --resume to measure all of it")
_MOST_BATCH, _MOST_PROMPT = 4096, 1_000_000
Batches = Annotated[str, partial(numbers, bounds=NumberBounds(1, _MOST_BATCH))]
Prompt = Annotated[int, NumberBounds(1, _MOST_PROMPT).check]
Prompts = Annotated[str, partial(numbers, bounds=NumberBounds(1, _MOST_PROMPT))]
Decoded = Annotated[int, NumberBounds(2, _MOST_PROMPT).check]
"""Tokens of outputs with a decode step: the first comes of the prompt."""
TextTokens = Annotated[int, NumberBounds(16, _MOST_PROMPT).check]


@record
class EngineFlags:
    """Flags of `agentrt bench engine`.

    Attributes:
        shape: Shape of the model: micro, tiny, half, qwen2.5-0.5b, llama-3.1-8b or mixtral-scaled.
        batch: Sequences at once, separated by commas.
        prompt: Own prompt tokens of each sequence.
        new: Tokens that each produces.
        shared: Tokens of a prefix that all share.
        dtype: Dtype of the computation: bfloat16, float32 or float16.
        device: Device of all arms: cpu or cuda.
        kernels: Kernels of our engine: auto, torch, cpu, triton or reference.
        weights: Weights of our engine: checkpoint, int8 or int4; llama.cpp beside it then takes
            q8_0 or q4_0, OpenVINO int8 by output or int4 in groups of 128.
        activations: Rows that quantised weights of ours multiply: auto or int8.
        kv_cache_dtype: KV of our engine: auto, int8 or fp8; peers keep theirs as they compute it.
        expert_memory: Most memory for experts of our engine, as 800MB; all of them if empty.
        peer: Peer beside our engine: hf, hf-cb, llama.cpp or openvino; repeatable.
        constrained: Measure outputs held to a JSON type as well.
        repeat: Rounds that count; 7 or more for a claim.
        quick: Measure two rounds, to try the command.
    """

    shape: str = "tiny"
    batch: Batches = "1,4,16"
    prompt: Prompts = "256"
    new: Decoded = 32
    shared: Annotated[str, numbers] = "0"
    dtype: str = "bfloat16"
    threads: Threads = 0
    device: str = "cpu"
    kernels: str = "auto"
    weights: str = "checkpoint"
    activations: str = "auto"
    kv_cache_dtype: str = "auto"
    expert_memory: str = ""
    peer: list[str] | None = None
    json_path: JsonPath = None
    constrained: bool = False
    repeat: Repeats = 7
    quick: bool = False

    @property
    def peers(self) -> tuple[str, ...]:
        """Peers, each once."""
        return tuple(dict.fromkeys(self.peer or ()))

    @property
    def counted(self) -> int:
        """Rounds that count."""
        return 2 if self.quick else self.repeat


@record
class DraftsFlags:
    """Flags of `agentrt bench drafts`.

    Attributes:
        shape: Shapes of random weights, and embedded for the finance program, separated by commas.
        text: Kinds of recorded text: copy, form, new.
        batch: Outputs, or runs of the program, at once, separated by commas.
        prompt: Tokens of each prompt.
        new: Tokens of each output.
        dtype: Dtype of all arms; by default bfloat16 for random weights, float32 for the program.
        device: Device of both arms: cpu or cuda.
        kernels: Kernels: auto, torch, cpu, triton or reference.
        programs: Folder of the finance program.
        draft_model: Checkpoint directory of a draft model for the arm with drafts, or None.
        repeat: Rounds that count; 11 or more for a claim.
        quick: Measure two rounds, to try the command.
    """

    shape: str = "tiny,half,embedded"
    text: str = "copy,form,new"
    batch: Batches = "1,4,16"
    prompt: TextTokens = 256
    new: TextTokens = 128
    dtype: str = ""
    threads: Threads = 0
    device: str = "cpu"
    kernels: str = "auto"
    programs: Path = Path("programs")
    draft_model: Annotated[Path | None, input_folder] = None
    json_path: JsonPath = None
    repeat: Repeats = 11
    quick: bool = False

    @property
    def counted(self) -> int:
        """Rounds that count."""
        return 2 if self.quick else self.repeat


@record
class ExpertsFlags:
    """Flags of `agentrt bench experts`.

    Attributes:
        shape: Shape of the model, one with experts: micro-mixtral, mixtral-scaled or mixtral-fine.
        batch: Sequences at once, separated by commas.
        prompt: Prompt tokens of each sequence.
        new: Tokens that each produces.
        dtype: Dtype of all arms: bfloat16 or float32.
        weights: Weights of our arms, separated by commas: checkpoint, int8, int4.
        memory: Further arms of ours with so much memory for experts, separated by commas, as 800MB;
            none if empty.
        others: Further ways of transformers beside grouped_mm, separated by commas: eager or
            batched_mm; none if empty.
        repeat: Rounds that count; 5 or more for a claim.
        quick: Measure two rounds, to try the command.
    """

    shape: str = "mixtral-fine"
    batch: Batches = "16"
    prompt: Prompt = 32
    new: Decoded = 16
    dtype: str = "bfloat16"
    weights: str = "checkpoint,int8,int4"
    memory: str = ""
    others: str = "eager"
    threads: Threads = 0
    json_path: JsonPath = None
    repeat: Repeats = 7
    quick: bool = False

    @property
    def counted(self) -> int:
        """Rounds that count."""
        return 2 if self.quick else self.repeat


@record
class AdaptersFlags:
    """Flags of `agentrt bench adapters`.

    Attributes:
        shape: Shape of the model, a dense one: micro, tiny, half, qwen2.5-0.5b or llama-3.1-8b.
        adapters: LoRA adapters, of all projections.
        rank: Rank of each.
        batch: Sequences at once.
        prompt: Context of each sequence, in tokens.
        dtype: Dtype of the computation: bfloat16 or float32.
        weights: Weights of the model, separated by commas: checkpoint, int8, int4.
        repeat: Steps that count; 30 or more for a claim.
        quick: Measure two steps, to try the command.
    """

    shape: str = "half"
    adapters: Annotated[int, NumberBounds(2, 256).check] = 8
    rank: Annotated[int, NumberBounds(1, 1024).check] = 16
    batch: Count = 8
    prompt: Prompt = 32
    dtype: str = "bfloat16"
    weights: str = "checkpoint"
    threads: Threads = 0
    json_path: JsonPath = None
    repeat: Repeats = 40
    quick: bool = False

    @property
    def counted(self) -> int:
        """Steps that count."""
        return 2 if self.quick else self.repeat


@record
class GpuFlags:
    """Flags of `agentrt bench gpu`.

    Attributes:
        json_path: Write all of it there.
        parts: Parts separated by commas: kernels, parity, speculation, speed, drafts.
        resume: Keep the other parts of the file: same GPU and code, else refused.
        rehearse: The same code over models of two layers on the CPU.
    """

    json_path: Annotated[Path, output_file]
    parts: str = "kernels,parity,speculation,speed,drafts"
    resume: bool = False
    rehearse: bool = False


@record
class ServeFlags:
    """Flags of `agentrt bench serve`.

    Attributes:
        parts: Parts separated by commas: health, chat, keys, addresses, users, half-open.
        pairs: Pairs of chats that count; ten times as many health checks.
        clients: Clients beside a newcomer.
        seconds: Seconds beside half-open connections.
    """

    parts: str = "health,chat,keys,addresses,users,half-open"
    pairs: Count = 200
    clients: Annotated[int, NumberBounds(1, 10_000).check] = 256
    seconds: Annotated[int, NumberBounds(1, 86_400).check] = 20
    json_path: JsonPath = None


@record
class StructuredFlags:
    """Flags of `agentrt bench structured`.

    Attributes:
        data: Folder of cases, a JSON object a line.
        vocabulary: Vocabularies separated by commas: embedded, 32k or 128k.
        peer: Peer beside our library: xgrammar or outlines-core; repeatable.
        most: Cases put to peers over a large vocabulary; 0 puts all.
        patience: Seconds that a case may take.
        quick: Put no more than --most cases anywhere, to try the command.
        masks: Only compare mask times with those of llguidance alone, in one process.
    """

    data: Annotated[Path, input_folder]
    vocabulary: str = "embedded,128k"
    peer: list[str] | None = None
    most: int = 60
    patience: Annotated[float, NumberBounds(1e-3, 86_400).check] = 15.0
    json_path: JsonPath = None
    quick: bool = False
    masks: bool = False

    @property
    def peers(self) -> tuple[str, ...]:
        """Peers, each once."""
        return tuple(dict.fromkeys(self.peer or ()))


@record
class CompoundFlags:
    """Flags of `agentrt bench compound`.

    Attributes:
        shape: Shape of the model: micro, tiny, half or embedded.
        arms: Arms: agentrt, and asyncio or langgraph + llama-server, llama-server-q8_0,
            llama-server-q4_k_m, vllm, openvino, transformers or ours.
        shapes: Shapes of programs, separated by commas, or all.
        draws: Programs of each shape, or draws of a load, that count.
        plays: Plays of each program, or of each draw of a load.
        warmups: Programs of each shape that are played before and do not count: earlier runs, from
            whose outputs call sites guess tokens.
        load: Arrivals: one program at a time, or open for programs as they arrive.
        rate: Programs a second of an open load; auto finds the rate at which fcfs+gate is
            slow.
        slowdown: Mean slowdown of programs under fcfs+gate at that rate.
        factors: Rates of the comparison, divided by that rate, separated by commas.
        programs: Programs of a draw of an open load.
        kv_share: KV memory divided by the working set of the mix; 0 gives enough.
        policy: Policies of our arm: fcfs, lpm, plas, rwa, oracle, clairvoyant; with +gate or -gate;
            several compete.
        without: Features to be taken away one at a time, or all; each makes an arm beside the one
            with every feature.
        scale: Scale of lengths, times and counts: life, or small to try things, then factors, as in
            small,output=0.15 or context=0.1,count=0.5,think=0.
        dtype: Dtype of all arms, bfloat16 or float32; the model decides if none is given.
        data: Folder of public data from which sizes are drawn.
        live: Folder of programs that are run as well, as they are (embedded only).
        texts: Texts of programs: drawn, or recorded for programs of recorded texts, which our
            engine writes again; --data is their folder, and each play takes a record of its own.
        busy: If other processes use the machine before a play: note it, wait or refuse.
        drafts: Let all arms guess tokens if that is quicker.
        quick: Measure one play of each, to try the command.
    """

    shape: str = "embedded"
    arms: str = "agentrt,asyncio+ours"
    shapes: str = "all"
    draws: Repeats = 2
    plays: Repeats = 3
    warmups: Repeats = 1
    load: str = "one"
    rate: Annotated[str, rate_of] = "auto"
    slowdown: Slowdown = 5.0
    factors: Annotated[str, rate_factors] = "0.6,0.8,1"
    programs: Count = 40
    kv_share: float = 0.0
    policy: str = "rwa"
    without: str = ""
    scale: str = "life"
    threads: Threads = 0
    dtype: str = ""
    tenants: Tenants = 1
    seed: Seed = 0
    data: Annotated[Path | None, input_folder] = None
    texts: str = "drawn"
    live: Annotated[Path | None, input_folder] = None
    json_path: JsonPath = None
    html_path: HtmlPath = None
    busy: Busy = "note"
    resume: Annotated[Path | None, RESUME, COMPOUND_FILE.check] = None
    drafts: bool = False
    quick: bool = False

    @property
    def counted(self) -> tuple[int, int]:
        """Draws and plays that count."""
        return (1, 1) if self.quick else (self.draws, self.plays)

    @property
    def written(self) -> Path | None:
        """File that holds the plays so far."""
        return self.resume or self.json_path
