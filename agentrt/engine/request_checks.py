"""Checks of a request before it becomes a sequence."""

from __future__ import annotations

from agentrt.base.adapter_choice import adapter_number
from agentrt.base.config import EngineConfig
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ContextOverflow, OutOfPages, RequestRejected, Unsupported
from agentrt.protocol.backend import GenerateRequest, TokenPrompt


def check_request(request: GenerateRequest, logits_size: int) -> tuple[int, ...]:
    """Check a request; returns the prompt's ids, as far as they are known.

    Raises:
        Unsupported: The prompt is messages.
        RequestRejected: An id is not in the vocabulary, the sampling contradicts the constraint, or
            scoring is requested for something other than a choice.
    """
    if not isinstance(request.prompt, TokenPrompt):
        raise Unsupported(
            "the embedded engine takes token ids, not messages",
            hint="Encode the prompt with the engine's codec",
        )
    if request.sampling.ignore_eos and request.constraint is not None:
        raise RequestRejected(
            "ignore_eos goes on where the constraint ends its output",
            hint="Leave ignore_eos or the constraint out",
        )
    kind = request.constraint.kind if request.constraint is not None else "missing"
    if request.scored and kind != "choice":
        raise RequestRejected(
            f"only a choice can be scored, this constraint is {kind}", hint="Leave `scored` out"
        )
    if request.scored and request.thinking_tokens is not None:
        raise RequestRejected(
            "options that are scored have no thought before them", hint="Leave thinking out"
        )
    if request.output_ids and not request.prompt.complete:
        raise RequestRejected(
            "a request with output has an incomplete prompt", hint="Send the whole prompt"
        )
    if request.ahead and request.prompt.complete:
        raise RequestRejected(
            "a prompt that is only expected is said to be complete",
            hint="Send it incomplete, or leave `ahead` out",
        )
    check_no_holes(request.constraint, complete=request.prompt.complete)
    check_ids(request.prompt.token_ids, logits_size)
    check_ids(request.output_ids, logits_size)
    return request.prompt.token_ids


def number_of_adapter(request: GenerateRequest, config: EngineConfig) -> int:
    """Number of a request's adapter from 1 on; 0 for none.

    Raises:
        RequestRejected: The engine has no such adapter.
    """
    try:
        return adapter_number(config, request.adapter)
    except KeyError:
        names = ", ".join(one.name for one in config.adapters) or "none"
        raise RequestRejected(
            f"the engine has no adapter {request.adapter!r}",
            hint=f"Name one of those that it loaded: {names}",
        ) from None


def check_no_holes(constraint: ConstraintSpec | None, *, complete: bool) -> None:
    """Refuse a complete request with a constraint that is not.

    Raises:
        RequestRejected: The constraint has a hole.
    """
    if complete and constraint is not None and constraint.holes:
        raise RequestRejected(
            f"the request is complete, and its constraint has the hole {constraint.holes[0]}",
            hint="Bring the constraint with the last fill",
        )


def check_ids(token_ids: tuple[int, ...], logits_size: int) -> None:
    """Refuse ids without an embedding.

    Raises:
        RequestRejected: One is out of range.
    """
    if token_ids and not (min(token_ids) >= 0 and max(token_ids) < logits_size):
        odd = next(token for token in token_ids if not 0 <= token < logits_size)
        raise RequestRejected(
            f"token id {odd} is outside the model's vocabulary of {logits_size}",
            hint="Encode the prompt with the codec of this engine's model",
        )


def check_length(
    prompt_tokens: int,
    *,
    complete: bool,
    window_tokens: int,
    page_tokens: int,
    total_pages: int,
) -> None:
    """Refuse a prompt that can never be served; an incomplete one can only grow.

    Raises:
        RequestRejected: The prompt is empty.
        ContextOverflow: The prompt leaves no room for a token.
        OutOfPages: The KV does not fit in the KV cache.
    """
    if prompt_tokens == 0 and complete:
        raise RequestRejected("the prompt is empty", hint="Give at least one token")
    if window_tokens and prompt_tokens + 1 > window_tokens:
        raise ContextOverflow(
            f"the prompt of {prompt_tokens} tokens and one more do not fit the window of "
            f"{window_tokens} tokens",
            needed_tokens=prompt_tokens + 1,
            window_tokens=window_tokens,
            hint="Shorten the prompt, or use a model with a longer window",
        )
    check_pages(prompt_tokens + 1, page_tokens, total_pages)


def check_pages(tokens: int, page_tokens: int, total_pages: int) -> None:
    """Refuse a sequence whose KV does not fit in the KV cache.

    Raises:
        OutOfPages: The KV does not fit in the KV cache.
    """
    if tokens > page_tokens * total_pages:
        raise out_of_pages(tokens, page_tokens, total_pages)


def check_options(
    prompt_tokens: int, longest_tokens: int, window_tokens: int, rope_threshold: int
) -> None:
    """Check that a prompt and its longest option fit one window, with the same angles.

    Raises:
        ContextOverflow: They do not.
    """
    if prompt_tokens <= rope_threshold:
        window_tokens = min(window_tokens or rope_threshold, rope_threshold)
    check_shortest(prompt_tokens, longest_tokens, window_tokens)


def check_shortest(prompt_tokens: int, shortest_tokens: int | None, window_tokens: int) -> None:
    """Refuse a prompt behind which not even the shortest complete output fits.

    Raises:
        ContextOverflow: The shortest output does not fit.
    """
    needed = prompt_tokens + (shortest_tokens or 0)
    if window_tokens and needed > window_tokens:
        raise ContextOverflow(
            f"the prompt of {prompt_tokens} tokens and the shortest valid output of "
            f"{shortest_tokens} do not fit the window of {window_tokens} tokens",
            needed_tokens=needed,
            window_tokens=window_tokens,
            hint="Shorten the prompt, ask for a smaller output, or use a model with a longer "
            "window",
        )


def out_of_pages(tokens: int, page_tokens: int, total_pages: int) -> OutOfPages:
    """The error of a sequence of so many tokens that does not fit even alone."""
    wanted_pages = -(-tokens // page_tokens)
    return OutOfPages(
        f"the request needs {wanted_pages} KV pages, the engine has {total_pages}",
        wanted_pages=wanted_pages,
        total_pages=total_pages,
        hint="Give the engine more KV memory (kv_bytes or kv_pages), or shorten the prompt",
    )
