"""The load of the server in Prometheus' text format, under vLLM's names where it has one."""

from __future__ import annotations

from agentrt.base.record import record
from agentrt.protocol.step_output import DraftCount

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


@record
class ServerLoad:
    """The load of the server at one instant.

    Attributes:
        running: Requests that the engine computes.
        waiting: All other requests that are under way, wherever they wait.
        kv_share: Share of the KV cache that requests hold, 0 to 1.
        kv_tokens: Size of the KV cache in tokens; 0 if unknown.
        slots: Requests that the engine computes at once; 0 if unknown.
        kv_bytes: Memory of the KV cache in bytes; 0 if unknown.
        expert_tokens: Tokens that each expert took in all answers so far, by layer; () if they are
            not counted.
        expert_hits: Experts that steps found in fast memory, in all answers so far; a step counts
            for each of its requests.
        expert_misses: Experts that they did not, likewise.
        drafts: Drafted tokens by source, in all answers so far.
    """

    running: int
    waiting: int
    kv_share: float = 0.0
    kv_tokens: int = 0
    slots: int = 0
    kv_bytes: int = 0
    expert_tokens: tuple[tuple[int, ...], ...] = ()
    expert_hits: int = 0
    expert_misses: int = 0
    drafts: tuple[DraftCount, ...] = ()


def metrics_text(load: ServerLoad, model: str) -> str:
    r"""The metrics of a server.

    Args:
        load: Load of the server.
        model: Name of the model, the label of each metric.

    Example:
        >>> print(metrics_text(ServerLoad(2, 1), "tiny").splitlines()[2])
        vllm:num_requests_running{model_name="tiny"} 2
    """
    kv_share = round(load.kv_share, 6)
    rows = (
        ("vllm:num_requests_running", "Requests that the engine computes.", load.running),
        ("vllm:num_requests_waiting", "Requests that wait.", load.waiting),
        ("vllm:kv_cache_usage_perc", "Share of the KV cache in use, 0 to 1.", kv_share),
        ("agentrt:kv_cache_tokens", "Tokens of the KV cache, 0 if unknown.", load.kv_tokens),
        ("agentrt:kv_cache_bytes", "Memory of the KV cache, 0 if unknown.", load.kv_bytes),
        ("agentrt:max_num_seqs", "Requests computed at once, 0 if unknown.", load.slots),
    )
    label = model.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    lines: list[str] = []
    for name, meaning, value in rows:
        lines += [
            f"# HELP {name} {meaning}",
            f"# TYPE {name} gauge",
            f'{name}{{model_name="{label}"}} {value}',
        ]
    if load.expert_tokens:
        name = "agentrt:expert_tokens_total"
        lines += [f"# HELP {name} Tokens that an expert took.", f"# TYPE {name} counter"]
        lines += [
            f'{name}{{model_name="{label}",layer="{layer}",expert="{expert}"}} {tokens}'
            for layer, counts in enumerate(load.expert_tokens)
            for expert, tokens in enumerate(counts)
        ]
    if load.expert_hits or load.expert_misses:
        for what, found, count in (
            ("hits", "in", load.expert_hits),
            ("misses", "out of", load.expert_misses),
        ):
            name = f"agentrt:expert_cache_{what}_total"
            lines += [
                f"# HELP {name} Experts {found} fast memory, by step and request.",
                f"# TYPE {name} counter",
                f'{name}{{model_name="{label}"}} {count}',
            ]
    drafted = [(one.source, one.accepted_tokens + one.rejected_tokens) for one in load.drafts]
    accepted = [(one.source, one.accepted_tokens) for one in load.drafts]
    for what, meaning, counts in (
        ("draft", "Tokens that were drafted.", drafted),
        ("accepted", "Drafted tokens that were drawn as guessed.", accepted),
    ):
        if counts:
            name = f"vllm:spec_decode_num_{what}_tokens_total"
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} counter"]
            lines += [
                f'{name}{{model_name="{label}",source="{source}"}} {tokens}'
                for source, tokens in counts
            ]
    return "\n".join(lines) + "\n"
