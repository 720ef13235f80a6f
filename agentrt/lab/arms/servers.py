"""Plans for servers of chat completions, each started as its authors would for branching programs.

All serve the same weights with the same KV memory, and have a slot for each branch. What may be a
server's best (threads, how they wait, how its cache is divided) makes a plan each; `open_best`
keeps the quickest.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from agentrt.analysis.model_shape import shape_in
from agentrt.base.errors import UsageError
from agentrt.base.record import record
from agentrt.lab.arms.peer_files import QUANTISED, PeerFiles
from agentrt.lab.arms.server_process import ServerPlan
from agentrt.lab.checkpoints.checkpoint import cache_folder
from agentrt.prompt import Codec

PAGE_TOKENS = 16
"""Tokens of a KV page, in our engine and in peers that divide their memory into pages."""
WAITS = ("passive", "active")
_MOST_REQUESTS = 4096
_WIDTHS = (0, 32, 16)  # requests of a client at once that may be its best; 0 for no limit
_BATCH_TOKENS = 2048
_LLAMA_COUNTERS = {
    "prompt_tokens": "llamacpp:prompt_tokens_total",
    "steps": "llamacpp:n_decode_total",
}
_F32_CACHE = ("--cache-type-k", "f32", "--cache-type-v", "f32")


@record
class Served:
    """The model that every server serves, and the memory that it gets.

    Attributes:
        model: Checkpoint directory.
        dtype: Dtype of the computation, `float32` or `bfloat16`.
        slots: Requests that a server with fixed slots runs at once: one for each branch.
        kv_tokens: Tokens that fit into its KV memory.
        longest_tokens: Longest request with its answer; 0 takes the model's window.
    """

    model: Path
    dtype: str
    slots: int = 16
    kv_tokens: int = 32_768
    longest_tokens: int = 0

    @property
    def name(self) -> str:
        """Name of the model in requests."""
        return self.model.resolve().name

    def no_text(self) -> list[int]:
        """Token ids that no output may have if `ignore_eos` forces its length."""
        vocab = Codec.load(self.model).vocab
        return sorted({*vocab.eos_ids, *vocab.special_ids.values()})


def plans_of(kind: str, served: Served, files: PeerFiles, *, cores: int) -> list[ServerPlan]:
    """Every plan that may be the best of its kind.

    Args:
        kind: A key of `SERVERS`.
        served: Model and memory.
        files: Files of the peers.
        cores: Cores of the machine.

    Raises:
        UsageError: There is no such kind, or it was not built.
    """
    if kind not in SERVERS:
        raise UsageError(f"there is no server {kind!r}", hint=f"Use one of {', '.join(SERVERS)}")
    files.check(kind)
    return SERVERS[kind](served, files, thread_counts(cores))


def thread_counts(cores: int) -> list[int]:
    """Numbers of threads that may be a peer's best."""
    return sorted({1, cores} if cores <= 2 else {1, cores // 2, cores})


def thread_env(threads: int, wait: str) -> dict[str, str]:
    """Environment of transformers: its threads, and how they wait if that is chosen."""
    policy = {"OMP_WAIT_POLICY": wait.upper()} if wait else {}
    return {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1", **policy}


def _llama_plans(
    served: Served, files: PeerFiles, threads: Sequence[int], weights: str = ""
) -> list[ServerPlan]:
    """One cache for all slots admits longer requests; a cache for each slot is read faster.

    The longest request has to fit into a slot, so a small memory leaves the first alone.
    """
    program = files.libraries / "llama-server"
    common = (
        *(str(program), "--model", str(gguf_of(served, files, weights)), "--alias", served.name),
        *("--host", "127.0.0.1", "--port", "{port}"),
        *("--parallel", str(served.slots), "--cont-batching", "--cache-prompt", "--jinja"),
        "--metrics",
        *("--ctx-size", str(served.kv_tokens)),
        *(_F32_CACHE if served.dtype == "float32" else ()),
    )
    biases = [[token, False] for token in served.no_text()]
    longest = served.longest_tokens or shape_in(served.model).window_tokens
    caches = [("one cache", "--kv-unified")]
    if served.kv_tokens // served.slots >= longest:
        caches.append(("split cache", "--no-kv-unified"))
    return [
        ServerPlan(
            kind=f"llama-server-{weights}" if weights else "llama-server",
            variant=f"{count}t {name}",
            command=(*common, flag, "--threads", str(count)),
            model=served.name,
            body={"temperature": 0, "ignore_eos": True, "cache_prompt": True, "logit_bias": biases},
            about={"threads": count, "version": _llama_version(program)},
            counters=_LLAMA_COUNTERS,
        )
        for count in threads
        for name, flag in caches
    ]


def weights_of_kind(kind: str) -> str:
    """Quantised weights of a llama-server of that kind; "" if they have the dtype of all arms."""
    return kind.removeprefix("llama-server").removeprefix("-")


def gguf_of(served: Served, files: PeerFiles, weights: str = "") -> Path:
    """The file that llama.cpp loads; written at its first use.

    It lies beside the checkpoints of the bench, or in a folder named by the weights.

    Args:
        served: Model and dtype.
        files: Files of the peers.
        weights: Quantised weights, some of `QUANTISED`; "" for the dtype.
    """
    folder = model = served.model
    if not model.resolve().is_relative_to(cache_folder().resolve()):
        digest = sha256((model / "model.safetensors").read_bytes()).hexdigest()[:12]
        folder = cache_folder() / "gguf" / f"{served.name}-{digest}"
        folder.mkdir(parents=True, exist_ok=True)
    return files.gguf(shape_in(model), weights or served.dtype, folder)


def _llama_version(program: Path) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    lines = (line.strip() for line in (done.stdout + done.stderr).splitlines())
    return next((line for line in lines if line.startswith("version")), "unknown")


def _transformers_plans(
    served: Served, files: PeerFiles, threads: Sequence[int]
) -> list[ServerPlan]:
    """Lengths are forced by a generation config in each request, in which no token ends a text."""
    generation = {"do_sample": False, "eos_token_id": -1, "suppress_tokens": served.no_text()}
    command = (
        *(str(files.transformers_program), "serve", str(served.model), "--continuous-batching"),
        *("--host", "127.0.0.1", "--port", "{port}", "--log-level", "error"),
        *("--device", "cpu", "--dtype", served.dtype),
        *("--cb-block-size", str(PAGE_TOKENS)),
        *("--cb-num-blocks", str(served.kv_tokens // PAGE_TOKENS)),
        *("--cb-max-batch-tokens", str(_BATCH_TOKENS)),
    )
    return [
        ServerPlan(
            kind="transformers",
            variant=f"{count}t {wait}".strip(),
            command=command,
            model=str(served.model),
            body={"generation_config": json.dumps(generation)},
            streams_what_may_end=True,
            env=thread_env(count, wait),
            about={"threads": count},
        )
        for count in threads
        for wait in (("",) if count == 1 else WAITS)
    ]


def _our_plans(served: Served, files: PeerFiles, threads: Sequence[int]) -> list[ServerPlan]:
    """Our server for clients that know requests only; the engine chooses its threads itself.

    A client gives forms, whose forced tokens the engine need not compute, and limits its requests
    if that is quicker: the server is the same, the plans differ in the client.
    """
    command = (
        *(sys.executable, "-P", "-m", "agentrt", "serve", "--model", str(served.model)),
        *("--name", served.name, "--port", "{port}", "--dtype", served.dtype),
        *("--kv-tokens", str(served.kv_tokens), "--policy", "fcfs"),
        *("--requests", str(_MOST_REQUESTS)),
    )
    body = {"temperature": 0, "ignore_eos": True}
    return [
        ServerPlan(
            kind="ours",
            variant=f"{width} at once" if width else "",
            command=command,
            model=served.name,
            body=body,
            form_body={"structured_outputs": {"regex": "{pattern}"}},
            width=width,
            about={"version": version("agentrt")},
        )
        for width in _WIDTHS
    ]


SERVERS: dict[str, Callable[[Served, PeerFiles, Sequence[int]], list[ServerPlan]]] = {
    "llama-server": _llama_plans,
    **{f"llama-server-{weights}": partial(_llama_plans, weights=weights) for weights in QUANTISED},
    "transformers": _transformers_plans,
    "ours": _our_plans,
}
