"""The servers of the compound bench, each started as its authors would for agents that branch.

All serve the same weights with the same memory for keys and values, and have a place for each
branch. What may be a server's best (threads, how they wait, how its cache is cut) makes a plan
each; `choice.py` beside it keeps the best.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from agentrt.analysis.model_shape import shape_in
from agentrt.base.errors import UsageError
from agentrt.lab.arms.peer_files import PeerFiles
from agentrt.lab.arms.server_process import ServerPlan
from agentrt.lab.bench.engine.points import PAGE_TOKENS
from agentrt.lab.checkpoints.checkpoint import cache_folder
from agentrt.prompt import Codec

_MOST_REQUESTS = 4096
_BATCH_TOKENS = 2048
_F32_CACHE = ("--cache-type-k", "f32", "--cache-type-v", "f32")


@dataclass(frozen=True, slots=True)
class Served:
    """What every server serves.

    Attributes:
        model: A checkpoint directory.
        dtype: That is computed in, "float32" or "bfloat16".
        slots: Requests that a server with fixed places runs at once: as many as a program has
            branches.
        kv_tokens: Tokens whose keys and values fit its memory.
        longest_tokens: Of a request, with its answer; 0 takes the model's window.
    """

    model: Path
    dtype: str
    slots: int = 16
    kv_tokens: int = 32_768
    longest_tokens: int = 0

    @property
    def name(self) -> str:
        """What requests call it."""
        return self.model.resolve().name

    def no_text(self) -> list[int]:
        """Tokens that no output may have, as `Sampling.ignore_eos` says."""
        vocab = Codec.load(self.model).vocab
        return sorted({*vocab.eos_ids, *vocab.special_ids.values()})


def plans_of(kind: str, served: Served, root: Path, *, cores: int) -> list[ServerPlan]:
    """Every plan of a kind of server that may be its best.

    Args:
        kind: As in `arm.SERVERS`.
        served: What it serves.
        root: Where `make peers` built what it runs on.
        cores: That there are.

    Raises:
        UsageError: There is no such kind, or it was not built.
    """
    threads = sorted({1, min(cores, 2)}) if cores <= 2 else [1, cores // 2, cores]
    files = PeerFiles(root, served.model)
    if kind == "llama-server":
        return _llama_plans(served, files, threads)
    if kind == "transformers":
        return _transformers_plans(served, files, threads)
    if kind == "ours":
        return [_our_plan(served)]
    raise UsageError(f"there is no server {kind!r}", hint="llama-server, transformers or ours")


def _llama_plans(served: Served, files: PeerFiles, threads: Sequence[int]) -> list[ServerPlan]:
    """One cache for all slots lets a request be as long as it likes; one for each is read faster.

    The longest request has to fit a slot, so a small memory leaves the first alone.
    """
    program = files.libraries / "llama-server"
    files.check("llama-server")
    common = (
        *(str(program), "--model", str(gguf_of(served, files)), "--alias", served.name),
        *("--host", "127.0.0.1", "--port", "{port}"),
        *("--parallel", str(served.slots), "--cont-batching", "--cache-prompt", "--jinja"),
        *("--ctx-size", str(served.kv_tokens)),
        *(_F32_CACHE if served.dtype == "float32" else ()),
    )
    biases = [[token, False] for token in served.no_text()]
    longest = served.longest_tokens or shape_in(served.model).window_tokens
    fits = served.kv_tokens // served.slots >= longest
    caches = [("one cache", "--kv-unified")]
    if fits:
        caches.append(("split cache", "--no-kv-unified"))
    return [
        ServerPlan(
            kind="llama-server",
            variant=f"{count}t {name}",
            command=(*common, flag, "--threads", str(count)),
            model=served.name,
            body={"temperature": 0, "ignore_eos": True, "cache_prompt": True, "logit_bias": biases},
            about={"threads": count, "version": _llama_version(program)},
        )
        for count in threads
        for name, flag in caches
    ]


def gguf_of(served: Served, files: PeerFiles) -> Path:
    """The file that llama.cpp reads; written at its first use."""
    return files.gguf(shape_in(served.model), served.dtype, _gguf_folder(served.model))


def _llama_version(program: Path) -> str:
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    told = (done.stdout + done.stderr).splitlines()
    return next((line.strip() for line in told if line.startswith("version")), "unknown")


def _gguf_folder(model: Path) -> Path:
    """Beside the bench's own checkpoints; for any other model a folder named by its weights."""
    if model.resolve().is_relative_to(cache_folder().resolve()):
        return model
    digest = sha256((model / "model.safetensors").read_bytes()).hexdigest()[:12]
    folder = cache_folder() / "gguf" / f"{model.resolve().name}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _transformers_plans(
    served: Served, files: PeerFiles, threads: Sequence[int]
) -> list[ServerPlan]:
    """Its lengths are forced by a generation config of the request, in which no token ends."""
    program = files.python.with_name("transformers")
    files.check("transformers")
    no_text = served.no_text()
    generation = {"do_sample": False, "eos_token_id": -1, "suppress_tokens": no_text}
    command = (
        *(str(program), "serve", str(served.model), "--continuous-batching"),
        *("--host", "127.0.0.1", "--port", "{port}", "--log-level", "error"),
        *("--device", "cpu", "--dtype", served.dtype),
        *("--cb-block-size", str(PAGE_TOKENS)),
        *("--cb-num-blocks", str(served.kv_tokens // PAGE_TOKENS)),
        *("--cb-max-batch-tokens", str(_BATCH_TOKENS)),
    )
    return [
        ServerPlan(
            kind="transformers",
            variant=f"{count}t {waits}".strip(),
            command=command,
            model=str(served.model),
            body={"generation_config": json.dumps(generation)},
            streams_what_may_end=True,
            env={
                "OMP_NUM_THREADS": str(count),
                "HF_HUB_OFFLINE": "1",
                **({"OMP_WAIT_POLICY": waits.upper()} if waits else {}),
            },
            about={"threads": count},
        )
        for count in threads
        for waits in (("",) if count == 1 else ("passive", "active"))
    ]


def _our_plan(served: Served) -> ServerPlan:
    """Our engine as it is for those who know nothing of programs; it chooses its threads itself."""
    return ServerPlan(
        kind="ours",
        variant="",
        command=(
            *(sys.executable, "-P", "-m", "agentrt", "serve", "--model", str(served.model)),
            *("--name", served.name, "--port", "{port}", "--dtype", served.dtype),
            *("--kv-tokens", str(served.kv_tokens), "--policy", "fcfs"),
            *("--requests", str(_MOST_REQUESTS)),
        ),
        model=served.name,
        body={"temperature": 0, "ignore_eos": True},
        about={"version": version("agentrt")},
    )
