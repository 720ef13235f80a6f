"""Options of one generation: one TypedDict for the type checkers, checked again at run time."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from agentrt.base.errors import UsageError
from agentrt.base.sampling_params import SamplingParams
from agentrt.program.overflow import OnOverflow

if TYPE_CHECKING:
    from agentrt.program.node_specs import OutputSpec


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
        thinking: Most tokens of free thought before the output, which the type is then asked of;
            part of `max_tokens`, not of the value: `gen.thinking` has it. 0 lets the model answer
            at once; left out, it does as it likes, where its type leaves it free.
        check: The type may say more than tokens can be held to (`uniqueItems`, validators of a
            pydantic model): what can be is enforced, and the value is checked in the end. One that
            does not pass is told to the model, which answers again.
        retries: How often it may, with `check`; 2 when left out.
        scored: Of a choice: all options are scored at once, whole, and the likeliest is taken (at a
            temperature one is drawn); `gen.scores` has the probabilities.
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
    thinking: int
    check: bool
    retries: int
    scored: bool


PHASES = frozenset({"thinking", "check", "retries", "scored"})
MAX_RETRIES = 10
RETRIES = 2
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
    if not PHASES.isdisjoint(options):
        _check_phases(options)
    on_limit = options.get("on_limit", "raise")
    if on_limit not in ("raise", "close"):
        raise UsageError(f"on_limit={on_limit!r} is unknown", hint="Give 'raise' or 'close'")


def _check_phases(options: GenOptions) -> None:
    """What the options say of thinking, checks and scores, and of each other."""
    most = options.get("max_tokens", SamplingParams().max_tokens)
    thinking = options.get("thinking", 0)
    if not 0 <= thinking < most:
        raise UsageError(
            f"thinking={thinking!r} is out of range",
            hint=f"Give 0 or more, below max_tokens={most}, which thought is part of",
        )
    retries = options.get("retries", RETRIES)
    if not 0 <= retries <= MAX_RETRIES:
        raise UsageError(
            f"retries={retries!r} is out of range", hint=f"Give 0 to {MAX_RETRIES} with check=True"
        )
    if not options.get("scored"):
        return
    odd = [name for name in ("thinking", "check", "stop", "logprobs") if options.get(name)]
    if odd:
        raise UsageError(
            f"scored=True decodes nothing, so {odd[0]} means nothing with it",
            hint=f"Leave {odd[0]} or scored out",
        )


def check_output(output: OutputSpec, options: GenOptions) -> None:
    """Refuse those of `PHASES` that make no sense for this output.

    Raises:
        UsageError: Naming the option.
    """
    kind = output.constraint.kind if output.constraint is not None else ""
    if options.get("scored") and (kind != "choice" or output.kind != "value"):
        raise UsageError(
            f"scored=True is for a choice, this is {output.name}",
            hint="Use generate(choice(...)), a Literal or an Enum of texts",
        )
    if options.get("check") and output.kind != "value":
        raise UsageError(
            "check=True is for generate(...)",
            hint="What is streamed or called cannot be asked for again",
        )
    if "retries" in options and not output.checked:
        raise UsageError("retries is for what is checked", hint="Give check=True with it")


def sampling_of(options: GenOptions, seed: int) -> SamplingParams:
    """The sampling parameters among the options; `seed` stands in for one that is left out."""
    given: dict[str, Any] = {name: value for name, value in options.items() if name in _SAMPLING}
    stop = options.get("stop", ())
    return SamplingParams(
        **given,
        seed=options.get("seed", seed),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
    )
