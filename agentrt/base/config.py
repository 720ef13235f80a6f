"""Settings of the embedded engine and of a run, as frozen values.

Reading them from flags, environment and files is the work of the command line; the rooms below are
handed the finished value.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Device = Literal["cpu", "cuda"]
PolicyName = Literal["fcfs", "lpm", "plas", "rwa", "oracle"]
KernelChoice = Literal["auto", "reference", "torch", "triton", "cpu"]


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """How the embedded engine is set up.

    Attributes:
        model_path: A Hugging Face checkpoint directory with safetensors.
        device: Where the model runs.
        dtype: "auto" takes what the checkpoint was saved in; fp32 for a small one on a CPU.
        page_tokens: Tokens of one KV page.
        kv_pages: Pages of KV memory; 0 sizes the pool from `kv_bytes`.
        kv_bytes: KV memory; 0 takes a share of what the device has free.
        step_tokens: Most tokens that one forward sees.
        max_running: Most sequences that run at once.
        prefill_chunk_tokens: Most prompt tokens of one sequence in a step.
        threads: CPU threads; 0 chooses: one for a small model, else one a core.
        seed: Of random weights, where asked for.
        random_weights: Ignore the checkpoint's weights (for tests and evaluations).
        kernels: Who computes attention, norms and rotations. "auto" takes Triton on CUDA, and on a
            CPU the native set where a compiler has built it, else "torch".
        self_check: Whether decoders computed here are held to transformers at load. "auto" does
            it once for each kind of checkpoint on this machine.
        overlap: Whether a step is launched before the tokens of the one before are known. "auto"
            does so on CUDA.
        graphs: Whether decode steps are captured and replayed. "auto" does so on CUDA, for models
            whose layers are computed here.
        host_kv_bytes: Memory of the host for KV that the device has no room for; 0 keeps none.
        jump_forward: Whether tokens that a grammar forces are written without asking the model. The
            tokens are the same where the model spells its text as the tokenizer does. Bytes that
            are forced but may be spelled in several ways are guessed, computed along and kept where
            the model draws just that: these tokens are the same always.
        policy: In which order waiting requests are served; see `SchedulerConfig`.
        stall_s: An engine that answers nothing for so long while it has work counts as dead and is
            started anew; 0 waits for ever.
    """

    model_path: Path
    device: Device = "cpu"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    page_tokens: int = 16
    kv_pages: int = 0
    kv_bytes: int = 0
    step_tokens: int = 2048
    max_running: int = 64
    prefill_chunk_tokens: int = 512
    threads: int = 0
    seed: int = 0
    random_weights: bool = False
    kernels: KernelChoice = "auto"
    self_check: Literal["auto", "always", "never"] = "auto"
    overlap: Literal["auto", "on", "off"] = "auto"
    graphs: Literal["auto", "off"] = "auto"
    host_kv_bytes: int = 0
    jump_forward: bool = True
    stall_s: float = 300.0
    policy: PolicyName = "rwa"


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """How the programs of one runtime share its engines.

    Attributes:
        policy: Which work goes first. "fcfs" the run that began first, "lpm" what the cache knows
            most of, "plas" the run that had the least service, "rwa" the run that needs the least
            more, aged by how long it waited, "oracle" as "rwa" with what a replay knows.
        gate_share: Share of an engine's KV memory that the peaks of admitted runs may add up to;
            0 admits every run at once.
        retention: Whether engines are told what becomes of prefixes (keep, demote, drop,
            prefetch).
        share_nodes: Whether like generations under way are computed once.
        speculate: Whether tools that are `pure` or `stable_for` are called ahead where past runs
            say what comes next.
        refuse_hopeless: Whether a run whose deadline leaves less than half of the past runs of its
            program took is refused when it begins; one of ten is let run, to see whether that
            still holds.
    """

    policy: PolicyName = "rwa"
    gate_share: float = 0.8
    retention: bool = True
    share_nodes: bool = True
    speculate: bool = False
    refuse_hopeless: bool = True


@dataclass(frozen=True, slots=True)
class RunConfig:
    """How one run goes.

    Attributes:
        seed: From which every node derives its own.
        deadline_s: For the whole run, from its start; None sets none.
        max_concurrent_tools: Worker threads for synchronous tools.
        capture_content: Put what was said on events, for observers that want it.
    """

    seed: int = 0
    deadline_s: float | None = None
    max_concurrent_tools: int = 16
    capture_content: bool = False
