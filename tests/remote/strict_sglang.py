"""Rules of SGLang for requests: the fields that `entrypoints/openai/protocol.py` declares.

A server drops a field that it does not declare without a word. Here it is refused, so that nothing
is sent in vain. A: `CompletionRequest`. B: `ChatCompletionRequest`, of the same file. C:
`OpenAIServingBase._compute_extra_key` of `serving_base.py`.
"""

from typing import Any

Json = dict[str, Any]

BOTH = {
    *("model", "max_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "stop", "stream"),
    *("presence_penalty", "frequency_penalty", "repetition_penalty", "ignore_eos", "regex"),
    *("stream_options", "stop_token_ids", "return_token_ids", "response_format", "priority"),
    *("extra_key", "cache_salt"),  # A, B: "Cache salt for request caching"
}
FIELDS = {
    "/v1/completions": BOTH | {"prompt", "json_schema"},  # A
    "/v1/chat/completions": BOTH | {"messages", "tools", "tool_choice", "parallel_tool_calls"},  # B
}


def fault(path: str, body: Json) -> str | None:
    """Why a request at a path is not taken as it is, or None."""
    for name in body.keys() - FIELDS[path]:
        return f"{name} is not declared"
    salt = body.get("cache_salt", "-")
    if not isinstance(salt, str):  # C: "Value of {key} must be a string"
        return f"Value of cache_salt must be a string, but got {type(salt).__name__}"
    return None
