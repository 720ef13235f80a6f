"""Options of one generation: one TypedDict for the type checkers, checked again at run time."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from agentrt.base.errors import UsageError
from agentrt.base.json_style import SEPARATORS, JsonStyle
from agentrt.base.sampling_params import SamplingParams
from agentrt.program.output import OutputSpec


class PlainGenOptions(TypedDict, total=False):
    """The options of `GenOptions` but for `on_overflow`, the only one that names a chat."""

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
    model: str
    logprobs: int
    ignore_eos: bool
    describe: bool
    thinking: int
    check: bool
    retries: int
    scored: bool
    json_style: JsonStyle
    cache: bool


PHASES = frozenset({"thinking", "check", "retries", "scored", "stop", "json_style"})
_DECODING = ("thinking", "check", "retries", "stop", "logprobs", "ignore_eos")
MAX_RETRIES = 10
RETRIES = 2
_SAMPLING = SamplingParams.__dataclass_fields__.keys() - {"seed", "stop"}
_WHOLE = frozenset({"value", "items", "calls", "step"})
_OWN_STYLE = {
    "calls": "Leave it out: calls are written as in the model's prompts",
    "tagged": "Give it to the contents of the tags: tag(name, typed(..., json_style=...))",
}
_ELSEWHERE = {"timeout": ["deadline"]}  # names that other libraries have
_KNOWN = dict.fromkeys((*PlainGenOptions.__annotations__, "on_overflow"))


def check_options(options: Mapping[str, Any]) -> None:
    """Refuse options that do not exist or are out of range, which type checkers may have missed.

    Raises:
        UsageError: The message names the option, the hint the nearest name that exists.
    """
    for name in options:
        if name not in _KNOWN:
            near = _ELSEWHERE.get(name) or difflib.get_close_matches(name, _KNOWN, n=1)
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
    if not isinstance(options.get("cache", False), bool):
        raise UsageError(f"cache={options['cache']!r} is no bool", hint="Give True or False")
    on_limit = options.get("on_limit", "raise")
    if on_limit not in ("raise", "close"):
        raise UsageError(f"on_limit={on_limit!r} is unknown", hint="Give 'raise' or 'close'")


def _check_phases(options: Mapping[str, Any]) -> None:
    """Check the options for thinking, checks and scores, each and against each other."""
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
    style = options.get("json_style", "compact")
    if style not in SEPARATORS:
        raise UsageError(
            f"json_style={style!r} is unknown", hint=f"There are: {', '.join(SEPARATORS)}"
        )
    if not options.get("scored"):
        return
    odd = [name for name in _DECODING if options.get(name)]
    if odd:
        raise UsageError(
            f"scored=True decodes nothing, so {odd[0]} means nothing with it",
            hint=f"Leave {odd[0]} or scored out",
        )


def check_output(output: OutputSpec, options: Mapping[str, Any]) -> None:
    """Refuse options in `PHASES` that make no sense for an output.

    Raises:
        UsageError: The message names the option.
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
    if options.get("stop") and output.constraint is not None and output.kind in _WHOLE:
        raise UsageError(
            f"stop= would cut {output.name} off before its end",
            hint="Leave stop out: such an output ends by itself",
        )
    if options.get("json_style") and output.kind in _OWN_STYLE:
        why = _OWN_STYLE[output.kind]
        raise UsageError(f"json_style= means nothing for {output.name}", hint=why)
    if options.get("check") and not output.checked:
        raise UsageError(
            f"check=True checks nothing of {output.name}",
            hint="Leave it out, or give it to json_schema(...)",
        )
    if "retries" in options and not output.checked:
        raise UsageError("retries is for what is checked", hint="Give check=True with it")


def sampling_of(options: PlainGenOptions, seed: int) -> SamplingParams:
    """The sampling parameters among the options; `seed` stands in for one that is left out."""
    given: dict[str, Any] = {name: value for name, value in options.items() if name in _SAMPLING}
    stop = options.get("stop", ())
    return SamplingParams(
        **given,
        seed=options.get("seed", seed),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
    )
