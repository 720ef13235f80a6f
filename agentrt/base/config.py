"""Settings of the embedded engine and of a run, as frozen values.

The command line reads them from flags, environment and files; the floors below receive the
finished value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentrt.base.errors import UsageError
from agentrt.base.prices import Prices

if TYPE_CHECKING:
    from agentrt.base.money import Amount

Device = Literal["cpu", "cuda"]
PolicyName = Literal["fcfs", "lpm", "plas", "rwa", "oracle", "clairvoyant"]

REPLAY_POLICIES: tuple[PolicyName, ...] = ("oracle", "clairvoyant")
"""Policies for replays alone, which know what their runs will need."""
SpeculateTokens = int | Literal["auto", "off"]
DraftTexts = Literal["all", "own"]
WeightChoice = Literal["checkpoint", "int8", "int4"]
ActivationChoice = Literal["auto", "int8", "fp8"]
HeadWeights = Literal["auto", "checkpoint", "int8", "int4"]
KvCacheDtype = Literal["auto", "int8", "fp8"]
KernelChoice = Literal["auto", "reference", "torch", "triton", "cpu"]

_SIZES: dict[str, dict[Device, int]] = {
    "step_tokens": {"cpu": 2048, "cuda": 8192},
    "max_running": {"cpu": 64, "cuda": 256},
    "prefill_chunk_tokens": {"cpu": 512, "cuda": 4096},
}
"""Sizes of a step that a device has by default. A GPU reaches its arithmetic only with thousands of
tokens, and reads its weights for hundreds of sequences in the time for one."""


@dataclass(frozen=True, slots=True)
class LoraAdapter:
    """A LoRA adapter of the embedded engine's model.

    Example:
        >>> from pathlib import Path
        >>> from agentrt import EngineConfig, LoraAdapter
        >>> judge = LoraAdapter("judge", Path("adapters/judge"))
        >>> [one.name for one in EngineConfig(Path("models/llama"), adapters=(judge,)).adapters]
        ['judge']

    Attributes:
        name: Name that `generate(model=...)` gives.
        path: Directory of a PEFT checkpoint.
    """

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Settings of the embedded engine; pass it as `open_runtime(engine=...)`.

    Example:
        >>> from pathlib import Path
        >>> from agentrt import EngineConfig
        >>> config = EngineConfig(Path("models/llama"), max_running=16).sized()
        >>> config.step_tokens, config.policy
        (2048, 'rwa')

    Attributes:
        model_path: A Hugging Face checkpoint directory with safetensors, or a GGUF file.
        device: Device of the model.
        dtype: "auto" takes the checkpoint's; float32 for a small model on a CPU.
        weights: "int8" and "int4" quantise the matrices of a decoder at load and leave them so: a
            step of few sequences reads fewer bytes. "checkpoint" leaves them as they are.
        weight_group: Inputs that share a scale in quantised weights: 32, 64 or 128; 0 takes a whole
            row for int8 and 32 for int4.
        head_weights: Format of the head in a quantised model; "auto" is "int8".
        activations: Format of the rows that quantised matrices of layers multiply. "int8" does half
            the work on a processor with dot products of bytes, "fp8" on a GPU with weights in FP8;
            both add an error of their own. "auto" takes what the result does not show.
        expert_routing: How tokens are sent to the experts of a model: "trained"; "threshold=0.1",
            without experts whose part of a token's weights is under it; "capacity=1.25", where no
            expert takes more than so many times its even part of a forward's tokens, and what is
            over goes to the next one, or nowhere with ",drop"; or "package.module:function".
        expert_load: Whether tokens are counted by request, layer and expert. Steps are then not
            captured as CUDA graphs.
        expert_memory: Expert offloading: most memory for experts, as "2GiB". The ones that most
            steps take are kept in it; all of them are in a mapped file beside a CPU, and in host
            memory beside a GPU. "" keeps all in fast memory.
        kv_cache_dtype: "int8" and "fp8" keep keys and values as codes of eight bits, integers or
            floats (e4m3), with a scale for each token and head: about twice the tokens in the same
            memory (vLLM: `kv_cache_dtype`). "auto" keeps them as they are computed.
        adapters: LoRA adapters, loaded beside the model (vLLM: `--lora-modules`). A generation
            names one by `model=`; a batch may hold rows of all.
        page_tokens: Tokens of one KV page (vLLM: block size).
        kv_pages: Pages of the KV cache; 0 sizes the pool from `kv_bytes`.
        kv_bytes: Size of the KV cache; 0 takes a share of the device's free memory.
        step_tokens: Token budget of a step, prefill and decode together (vLLM:
            `max_num_batched_tokens`); 0 takes 2,048 on a CPU and 8,192 on CUDA.
        max_running: Maximum number of sequences that run at once (vLLM: `max_num_seqs`); 0 takes 64
            on a CPU and 256 on CUDA.
        prefill_chunk_tokens: Chunked prefill: maximum number of prompt tokens of one sequence in a
            step; 0 takes 512 on a CPU and 4,096 on CUDA.
        threads: CPU threads; 0 chooses one for a small model, else one a core.
        seed: Seed of random weights.
        random_weights: Ignore the checkpoint's weights (for tests and evaluations).
        kernels: Kernels of attention, norms and rotations. "auto" takes Triton on CUDA, and on a
            CPU the native set if a compiler has built it, else "torch".
        self_check: Whether native models are compared with transformers at load. "auto" does it
            once for each kind of checkpoint on this machine.
        overlap: Whether a step is launched before the tokens of the step before are known. "auto"
            does so on CUDA.
        graphs: Whether decode steps are captured and replayed as CUDA graphs. "auto" does so on
            CUDA, for native models.
        host_kv_bytes: KV offload: host memory for KV evicted from the device; 0 offloads nothing.
        jump_forward: Whether tokens forced by a grammar are written without a forward pass. The
            tokens are the same if the model spells its text as the tokenizer does. Forced bytes
            that have several spellings are guessed, computed along, and kept if the model samples
            exactly the guess: these tokens are the same always.
        speculate_tokens: Speculative decoding: maximum number of tokens of one sequence that are
            guessed and computed along in a step. Guesses come from earlier outputs of the same call
            site, from the prompt, and from a draft model. "auto" takes as many as pay; "off"
            guesses forced bytes only. Guesses never change a token.
        draft_model: Checkpoint directory or GGUF file of a draft model: a smaller model with the
            same vocabulary that guesses where nothing else does better. Its KV takes a part of the
            KV memory. On a CPU also the directory of an EAGLE-3 head of the model.
        draft_texts: Texts that guesses repeat. "all": the request's own text, and outputs of its
            call site; "own": its own prompt and output alone, as engines guess that know no call
            sites.
        policy: Order of waiting requests; see `SchedulerConfig`.
        share_prefixes: Whether a request uses KV that others have computed. Otherwise each computes
            all of its prompt, which shows what the radix tree spares.
        replay: File of recorded outputs, for benchmarks alone: a request with a recorded prompt is
            computed as always, and writes the recorded tokens in place of the sampled ones. See
            `agentrt.engine.sampling.record_table`.
        prices: Prices of tokens and of device seconds; None leaves costs unknown.
        response_cache: Whether generations use the response cache unless they say otherwise.
    """

    model_path: Path
    device: Device = "cpu"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    weights: WeightChoice = "checkpoint"
    weight_group: int = 0
    head_weights: HeadWeights = "auto"
    activations: ActivationChoice = "auto"
    expert_routing: str = "trained"
    expert_load: bool = False
    expert_memory: str = ""
    kv_cache_dtype: KvCacheDtype = "auto"
    adapters: tuple[LoraAdapter, ...] = ()
    page_tokens: int = 16
    kv_pages: int = 0
    kv_bytes: int = 0
    step_tokens: int = 0
    max_running: int = 0
    prefill_chunk_tokens: int = 0
    threads: int = 0
    seed: int = 0
    random_weights: bool = False
    kernels: KernelChoice = "auto"
    self_check: Literal["auto", "always", "never"] = "auto"
    overlap: Literal["auto", "on", "off"] = "auto"
    graphs: Literal["auto", "off"] = "auto"
    host_kv_bytes: int = 0
    jump_forward: bool = True
    speculate_tokens: SpeculateTokens = "off"
    draft_model: Path | None = None
    draft_texts: DraftTexts = "all"
    policy: PolicyName = "rwa"
    share_prefixes: bool = True
    replay: Path | None = None
    prices: Prices | None = None
    response_cache: bool = False

    def sized(self) -> EngineConfig:
        """These settings with the sizes of a step that the device has by default.

        Raises:
            UsageError: A size is negative.
        """
        chosen: dict[str, int] = {}
        for name, by_device in _SIZES.items():
            given: int = getattr(self, name)
            if given < 0:
                raise UsageError(
                    f"EngineConfig({name}={given}) is negative",
                    hint=f"Give {name}=1 or more, or 0 for the size that suits the device",
                )
            chosen[name] = given or by_device[self.device]
        return replace(self, **chosen)  # type: ignore[arg-type]  # the names are those of integers


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Settings of how the runs of one runtime share its engines.

    Example:
        >>> from agentrt import SchedulerConfig
        >>> SchedulerConfig(policy="fcfs", gate_share=0.5)
        SchedulerConfig(policy='fcfs', gate_share=0.5, retention=True, share_nodes=True, ...)

    Attributes:
        policy: Order of work. "fcfs": earliest run first; "lpm": longest prefix match in the cache
            first; "plas": least attained service first; "rwa": least remaining work first, aged by
            waiting time; "oracle": "rwa" with the true remaining work of a replay; "clairvoyant":
            least true remaining work first, without ageing and with true KV needs, a bound.
        gate_share: Admission control: share of an engine's KV cache that the peaks of admitted
            runs may add up to; 0 admits every run at once.
        retention: Whether engines receive KV hints about prefixes (keep, demote, drop, prefetch).
        share_nodes: Whether equal generations in flight are coalesced and computed once.
        stream_fills: Whether a prompt takes the text of a generation that it waits for while that
            is written.
        speculate: Whether tools that are `pure` or `stable_for` are called ahead if past runs
            predict the call.
        prefill_ahead: Whether the prompt that is likely next is computed while its program waits,
            if past runs predict it and the engine has nothing else to do.
        refuse_hopeless: Whether a run is refused at its start if its deadline leaves less time than
            half of the past runs of its program took; one in ten runs nevertheless, to see whether
            that still holds.
    """

    policy: PolicyName = "rwa"
    gate_share: float = 0.8
    retention: bool = True
    share_nodes: bool = True
    stream_fills: bool = True
    speculate: bool = False
    prefill_ahead: bool = False
    refuse_hopeless: bool = True


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Defaults for the runs of a runtime; `RunOptions` overrides them for one run.

    Example:
        >>> from agentrt import RunConfig
        >>> RunConfig(seed=7, deadline_s=30.0)
        RunConfig(seed=7, deadline_s=30.0, max_concurrent_tools=16, capture_content=False, ...)

    Attributes:
        seed: Seed of the run; each node's seed is derived from it.
        deadline_s: Time for the whole run, from its start; None sets no deadline.
        max_concurrent_tools: Worker threads for synchronous tools.
        capture_content: Whether events carry message content, for observers that need it.
        max_result_bytes: Limit on the text of a tool's result, in bytes of UTF-8.
        blocking_call_s: A call of the user's code that keeps the event loop for longer is reported
            with its line on standard error, once a line; 0 reports none.
        write_grace_s: Time for which `write` tools that have not ended hold the end of the runtime,
            and so of the process. They hold no run.
        max_depth: Programs inside one another.
        max_nodes: Nodes that a run makes in all.
        max_running: Bodies of programs, tools and questions of a run that have not ended.
        max_cost: Money for all generations of a run, as `limits(cost=...)`; None sets no limit.
    """

    seed: int = 0
    deadline_s: float | None = None
    max_concurrent_tools: int = 16
    capture_content: bool = False
    max_result_bytes: int = 4 * 1024 * 1024
    blocking_call_s: float = 0.1
    write_grace_s: float = 30.0
    max_depth: int = 200
    max_nodes: int = 100_000
    max_running: int = 10_000
    max_cost: Amount | None = None
