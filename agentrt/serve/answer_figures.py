"""Tokens and times of an answer."""

from __future__ import annotations

from typing import Any

from agentrt.protocol.step_output import Ledger

Json = dict[str, Any]


def figures(ledger: Ledger) -> Json:
    """Tokens and times in the fields of vLLM."""
    guesses = [one for one in ledger.drafts if one.source != "grammar"]
    usage = {
        "prompt_tokens": ledger.prompt_tokens,
        "completion_tokens": ledger.output_tokens,
        "total_tokens": ledger.prompt_tokens + ledger.output_tokens,
        "prompt_tokens_details": {"cached_tokens": ledger.cached_tokens},
        "completion_tokens_details": {
            "accepted_prediction_tokens": sum(one.accepted_tokens for one in guesses),
            "rejected_prediction_tokens": sum(one.rejected_tokens for one in guesses),
        },
    }
    metrics = {
        "queue_time_ms": ledger.queue_s * 1e3,
        "time_to_first_token_ms": (ledger.prefill_s + ledger.kv_reload_s) * 1e3,
        "generation_time_ms": (ledger.decode_s + ledger.constraint_s) * 1e3,
    }
    return {"usage": usage, "metrics": metrics}
