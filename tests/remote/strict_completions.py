"""Rules of vLLM for completions of token ids: `vllm/entrypoints/openai/completion/protocol`."""

from typing import Any

Json = dict[str, Any]
MOST_LOGPROBS = 20

FIELDS = {
    *("model", "prompt", "max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "stop"),
    *("presence_penalty", "frequency_penalty", "repetition_penalty", "ignore_eos", "stream"),
    *("stream_options", "stop_token_ids", "return_token_ids", "response_format", "priority"),
    *("structured_outputs", "session_id", "cache_salt", "logprobs", "return_tokens_as_token_ids"),
}


def fault(body: Json) -> str | None:
    """Why a request is refused with 400, or None."""
    for name in body.keys() - FIELDS:
        return f"Unrecognized request argument supplied: {name}"
    prompt = body.get("prompt")
    if not isinstance(prompt, list) or not prompt or not all(type(one) is int for one in prompt):
        return "prompt: Input should be a valid list of integers"
    if any(one < 0 for one in prompt):
        return "prompt: Input should be greater than or equal to 0"
    if body.get("max_tokens", 16) < 1:
        return f"max_tokens must be at least 1, got {body['max_tokens']}."
    if body.get("logprobs", 0) > MOST_LOGPROBS:
        return f"Requested sample logprobs of {body['logprobs']}, max allowed: {MOST_LOGPROBS}"
    if body.get("response_format") and body.get("structured_outputs"):
        return "You can only use one kind of constraints for structured outputs"
    return None
