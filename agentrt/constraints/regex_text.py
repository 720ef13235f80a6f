"""Reading a regex just far enough to know its cost and to write it for both libraries alike."""

from __future__ import annotations

from dataclasses import dataclass

_ASCII = {"d": "0-9", "w": "A-Za-z0-9_", "s": " \\t\\n\\r\\f\\v"}
_SPECIAL = set("\\.+*?()|[]{}^$")


@dataclass(frozen=True, slots=True)
class RegexCost:
    """What the automaton of a regex may grow to.

    Attributes:
        states: About how many states before determinising.
        loops: Repetitions without an upper bound.
        wide_after_loop: Atoms behind the first loop that match more than one character: each can
            double the number of states.
        broad: Whether some atom matches a large part of all characters.
    """

    states: int
    loops: int
    wide_after_loop: int
    broad: bool


def escape_regex(text: str) -> str:
    """A regex that matches exactly `text`."""
    return "".join(f"\\{c}" if c in _SPECIAL else c for c in text)


def whole_match(pattern: str) -> str:
    r"""The same regex for matching whole texts, `\d \w \s` in ASCII, without outer anchors.

    An anchor at the edge of a whole match says nothing; the libraries differ in what they make of
    it.
    """
    pieces: list[str] = []
    depth = 0
    in_class = False
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and at + 1 < len(pattern):
            following = pattern[at + 1]
            ascii_class = _ASCII.get(following)
            if ascii_class is None:
                pieces.append(char + following)
            else:
                pieces.append(ascii_class if in_class else f"[{ascii_class}]")
            at += 2
            continue
        if in_class:
            in_class = char != "]" or pattern[at - 1] == "[" or pattern[at - 2 : at] == "[^"
        elif char == "[":
            in_class = True
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif depth == 0 and _is_outer_anchor(pattern, at):
            at += 1
            continue
        pieces.append(char)
        at += 1
    return "".join(pieces)


def _is_outer_anchor(pattern: str, at: int) -> bool:
    if pattern[at] == "^":
        return at == 0 or pattern[at - 1] == "|"
    return pattern[at] == "$" and (at + 1 == len(pattern) or pattern[at + 1] == "|")


def cost_of(pattern: str) -> RegexCost:
    """Estimate, from the text alone, what the automaton of `pattern` costs."""
    sizes = [0]  # states inside each open group
    wides = [0]
    last, last_wide = 0, 0  # of the atom that a repetition would multiply
    loops, broad, at = 0, False, 0
    while at < len(pattern):
        char = pattern[at]
        width = 1
        if char == "(":
            sizes.append(0)
            wides.append(0)
        elif char == ")" and len(sizes) > 1:
            last, last_wide = sizes.pop(), wides.pop() + 1
            sizes[-1] += last
            wides[-1] += last_wide if loops else 0
        elif char in "*+" or (char == "{" and pattern[at:].split("}")[0].endswith(",")):
            loops += 1
            width = pattern.find("}", at) - at + 1 if char == "{" else 1
            count = _largest(pattern[at : at + width])
            sizes[-1] += last * (count - 1)
        elif char == "{":
            width = max(1, pattern.find("}", at) - at + 1)
            count = _largest(pattern[at : at + width])
            sizes[-1] += last * (count - 1)
            wides[-1] += last_wide * (count - 1) if loops else 0
        elif char in "?|^$":
            pass
        else:
            width, wide, is_broad = _atom(pattern, at)
            broad = broad or is_broad
            last, last_wide = 4 if is_broad else 1, int(wide)
            sizes[-1] += last
            wides[-1] += last_wide if loops else 0
        at += width
    return RegexCost(sum(sizes), loops, sum(wides), broad)


def _largest(repetition: str) -> int:
    counts = [int(n) for n in repetition.strip("{}").split(",") if n.strip().isdigit()]
    return max(1, *counts) if counts else 1


def _atom(pattern: str, at: int) -> tuple[int, bool, bool]:
    """Length in the pattern, whether it matches several characters, whether very many."""
    char = pattern[at]
    if char == "\\":
        kind = pattern[at + 1 : at + 2]
        return 2, kind in "dwsDWSpP", kind in "DWSpP"
    if char == ".":
        return 1, True, True
    if char == "[":
        end = at + 2 if pattern[at + 1 : at + 2] == "^" else at + 1
        end = pattern.find("]", end + 1)
        return (end - at + 1 if end > 0 else 1), True, pattern[at + 1 : at + 2] == "^"
    return 1, False, False
