"""Plans for servers of chat completions, each started as its authors would for branching programs.

All serve the same weights with the same KV memory, and have a slot for each branch. What may be a
server's best (threads, how they wait, how its cache is divided) makes a plan each, and further
settings are tried on the best of these: `open_best` keeps the quickest.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version

from agentrt.base.errors import UsageError
from agentrt.lab.arms.llama_server import llama_search
from agentrt.lab.arms.openvino_server import openvino_search
from agentrt.lab.arms.peer_files import QUANTISED, PeerFiles
from agentrt.lab.arms.plan_search import PlanSearch
from agentrt.lab.arms.served import PAGE_TOKENS, WAITS, Served, thread_counts, thread_env
from agentrt.lab.arms.server_process import ServerPlan
from agentrt.lab.arms.vllm_server import vllm_search

OURS_DRAFTS = "ours-drafts"
"""Our server with speculative decoding."""

OUR_SERVERS = ("ours", OURS_DRAFTS)
_MOST_REQUESTS = 4096
_WIDTHS = (0, 32, 16)  # requests of a client at once that may be its best; 0 for no limit
_BATCH_TOKENS = 2048


def plans_of(kind: str, served: Served, files: PeerFiles, *, cores: int) -> tuple[ServerPlan, ...]:
    """The plans that a search for the best of a kind begins with, the plainest first.

    Raises:
        UsageError: There is no such kind, or it was not built.
    """
    return search_of(kind, served, files, cores=cores).plans


def search_of(kind: str, served: Served, files: PeerFiles, *, cores: int) -> PlanSearch:
    """All that may be the best of its kind.

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


def _transformers_search(served: Served, files: PeerFiles, threads: Sequence[int]) -> PlanSearch:
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
    plans = [
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
    return PlanSearch(tuple(plans))


def _our_search(
    served: Served, files: PeerFiles, threads: Sequence[int], *, drafts: bool = False
) -> PlanSearch:
    """Our server for clients that know requests only; the engine chooses its threads itself.

    With drafts it guesses from each request's own text, since it knows no call sites. A client
    gives forms, whose forced tokens the engine need not compute, and limits its requests if that is
    quicker: the server is the same, the plans differ in the client.
    """
    command = (
        *(sys.executable, "-P", "-m", "agentrt", "serve", "--model", str(served.model)),
        *("--name", served.name, "--port", "{port}", "--dtype", served.dtype),
        *("--kv-tokens", str(served.kv_tokens), "--policy", "fcfs"),
        *("--requests", str(_MOST_REQUESTS)),
        *(("--speculate-tokens", "auto", "--draft-texts", "own") if drafts else ()),
        *(("--replay", str(served.replay)) if served.replay is not None else ()),
    )
    body = {"temperature": 0, "ignore_eos": True}
    plans = [
        ServerPlan(
            kind=OURS_DRAFTS if drafts else "ours",
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
    return PlanSearch(tuple(plans))


SERVERS: dict[str, Callable[[Served, PeerFiles, Sequence[int]], PlanSearch]] = {
    "llama-server": llama_search,
    **{f"llama-server-{weights}": partial(llama_search, weights=weights) for weights in QUANTISED},
    "transformers": _transformers_search,
    "vllm": vllm_search,
    "openvino": openvino_search,
    "ours": _our_search,
    OURS_DRAFTS: partial(_our_search, drafts=True),
}
