"""Words and figures as the report prints them."""

from __future__ import annotations

from agentrt.analysis.stage import Label

LABEL_WORDS: dict[Label, str] = {
    "admission": "held back by admission control",
    "cache": "looking up the response cache",
    "queue": "waiting for a busy engine or tool worker",
    "kv_reload": "bringing KV back from the host's memory",
    "prefill": "computing prompts",
    "decode": "producing tokens",
    "constraint": "compiling grammars and filling masks",
    "tool": "tools at work",
    "orchestration": "the program's code and the runtime",
    "network": "on the way to and from a remote engine",
    "unattributed": "without any event or account",
}

LEAST_S = 5e-7
"""Shorter times are what rounding leaves."""

WAITS: frozenset[Label] = frozenset({"admission", "cache", "queue"})
"""Labels of time in which nothing is computed for the node; drawn as a thin line."""

SPACE = "\u00a0"  # between a figure and its unit, which stay on one line
TIMES = "\u00d7"  # the sign of multiplication


def duration(seconds: float) -> str:
    """A duration with about three digits.

    Example:
        >>> found = [duration(s) for s in (0.0, 0.00004, 0.0042, 0.2749, 2.306, 75.0)]
        >>> [text.replace(SPACE, " ") for text in found]
        ['0 ms', '0.04 ms', '4.2 ms', '275 ms', '2.31 s', '75.0 s']
    """
    if seconds >= 0.9995:
        return f"{seconds:.2f}{SPACE}s" if seconds < 9.995 else f"{seconds:.1f}{SPACE}s"
    ms = seconds * 1e3
    if ms >= 99.95:
        return f"{ms:.0f}{SPACE}ms"
    if ms >= 0.95:
        return f"{ms:.1f}{SPACE}ms"
    return f"{ms:.2f}{SPACE}ms" if ms >= 0.005 else f"0{SPACE}ms"


def tick_text(seconds: float) -> str:
    """A round duration, as the marks of an axis have.

    Example:
        >>> [tick_text(s).replace(SPACE, " ") for s in (0.0005, 0.2, 1.0, 2.5)]
        ['0.5 ms', '200 ms', '1 s', '2.5 s']
    """
    return f"{seconds:g}{SPACE}s" if seconds >= 0.9995 else f"{seconds * 1e3:g}{SPACE}ms"


def share(part: float, whole: float) -> str:
    """A part as a percentage of a whole.

    Example:
        >>> found = share(0.5, 2.0), share(0.001, 2.0), share(0.0, 2.0), share(1.0, 0.0)
        >>> [text.replace(SPACE, " ") for text in found]
        ['25 %', '<1 %', '0 %', '0 %']
    """
    if part <= 0.0 or whole <= 0.0:
        return f"0{SPACE}%"
    percent = 100.0 * part / whole
    return f"<1{SPACE}%" if percent < 0.5 else f"{percent:.0f}{SPACE}%"


def counted(count: int, noun: str, plural: str = "") -> str:
    """A count with its noun.

    Example:
        >>> counted(1, "node"), counted(1200, "node"), counted(2, "reply", "replies")
        ('1 node', '1,200 nodes', '2 replies')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def times(count: int) -> str:
    """A mark behind the name of several nodes, such as `plan x3`; "" for one."""
    return f" {TIMES}{count:,}" if count > 1 else ""


def shortened(text: str, characters: int) -> str:
    """A text of at most `characters`, with a mark if it was longer.

    Example:
        >>> shortened("synthesis", 6), shortened("plan", 6)
        ('synth…', 'plan')
    """
    return text if len(text) <= characters else text[: characters - 1] + "…"


def program_of(node_id: str) -> str:
    """Path of the program around a node, without the numbers that tell its calls apart.

    Example:
        >>> program_of("root#0/part#3/plan#12")
        'root/part'
    """
    return "/".join(part.partition("#")[0] for part in node_id.split("/")[:-1])
