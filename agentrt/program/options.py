"""Options of one generation: one TypedDict for the type checkers, checked again at run time."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, Literal, TypedDict

from agentrt.errors import UsageError
from agentrt.program.overflow import OnOverflow
from agentrt.sampling import Sampling


class GenOptions(TypedDict, total=False):
    """What every method that generates takes as keywords.

    Attributes:
        max_tokens: Most tokens to produce.
        temperature: 0 is greedy.
        top_k: Keep the k likeliest tokens; 0 keeps all.
        top_p: Keep the smallest set whose probability reaches p.
        min_p: Keep tokens at least `min_p` times as likely as the likeliest.
        presence_penalty: Taken once from the logit of each token already produced.
        frequency_penalty: Taken for each time a token was produced.
        repetition_penalty: Divides logits of tokens seen; 1 does nothing.
        stop: Strings that end the output.
        seed: Of this generation; left out, it derives from the run's seed and the node's path.
        name: Of the node, low in cardinality.
        deadline: Seconds from now.
        on_limit: "raise" at a limit, or "close" the output by its shortest valid end.
        on_overflow: Called with an `Overflow` when the prompt leaves less than `max_tokens` of the
            window; gives a shorter chat, which the answer then continues. `trim` is one.
        model: Which engine: a role that the runtime was opened with.
        logprobs: How many alternatives to report a token.
        ignore_eos: Nothing but a limit ends the output, which is free text without special tokens.
        describe: Tell the model of the type, at the end of the last message: its fields, their
            bounds, and what docstrings and `Field(description=...)` say of them.
    """

    max_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    repetition_penalty: float
    stop: str | Sequence[str]
    seed: int
    name: str
    deadline: float
    on_limit: Literal["raise", "close"]
    on_overflow: OnOverflow
    model: str
    logprobs: int
    ignore_eos: bool
    describe: bool


_SAMPLING = frozenset(
    {
        "max_tokens",
        "temperature",
        "top_k",
        "top_p",
        "min_p",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "logprobs",
        "ignore_eos",
    }
)
_KNOWN = GenOptions.__annotations__.keys()


def check_options(options: GenOptions) -> None:
    """Refuse options that do not exist: a type checker finds them, at run time we do.

    Raises:
        UsageError: With the nearest name that exists.
    """
    for name in options:
        if name not in _KNOWN:
            near = difflib.get_close_matches(name, _KNOWN, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(_KNOWN)}"
            raise UsageError(f"generate has no option {name!r}", hint=hint)
    deadline_s = options.get("deadline")
    if deadline_s is not None and not deadline_s > 0:
        raise UsageError(f"deadline={deadline_s!r} is out of range", hint="Give seconds above 0")
    on_overflow = options.get("on_overflow", callable)
    if not callable(on_overflow):
        raise UsageError(
            f"on_overflow={on_overflow!r} cannot be called",
            hint="Give a function of an Overflow, such as `trim`",
        )
    on_limit = options.get("on_limit", "raise")
    if on_limit not in ("raise", "close"):
        raise UsageError(f"on_limit={on_limit!r} is unknown", hint="Give 'raise' or 'close'")


def sampling_of(options: GenOptions, seed: int) -> Sampling:
    """The sampling parameters among the options; `seed` stands in for one that is left out."""
    given: dict[str, Any] = {name: value for name, value in options.items() if name in _SAMPLING}
    stop = options.get("stop", ())
    return Sampling(
        **given,
        seed=options.get("seed", seed),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
    )
