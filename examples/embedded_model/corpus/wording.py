"""Phrase patterns with alternatives, and the noise of people typing.

A pattern is text with nested alternatives in parentheses, `"How (volatile|risky) was {s}"`; `expand` draws one.
"""

import random

OPENERS = (
    "Hi, ", "Hello, ", "Hey, ", "Please tell me: ", "Quick question: ", "I wonder: ", "Question: ", "Hi there. ", "Good morning. ",
    "One more thing: ", "OK, ", "So, ", "Now, ", "Also, ", "Just curious: ", "For a report: ", "Hello! ", "Well, ", "Help me with this: ",
)  # fmt: skip
CLOSERS = (
    " Thanks.",
    " Thank you.",
    " please",
    " Thanks!",
    " I need it for a talk.",
    " Please be brief.",
    " Cheers.",
    " Please.",
    " thx",
    " Give the number.",
)


def expand(pattern: str, rng: random.Random) -> str:
    """Draw one of each group of alternatives, innermost first."""
    while (close := pattern.find(")")) >= 0:
        start = pattern.rindex("(", 0, close)
        pattern = (
            pattern[:start]
            + rng.choice(pattern[start + 1 : close].split("|"))
            + pattern[close + 1 :]
        )
    return " ".join(pattern.split())


def upper_first(text: str) -> str:
    """`text` with a capital first letter."""
    return text[:1].upper() + text[1:]


def with_typo(text: str, rng: random.Random) -> str:
    """One lower-case word of `text` with two letters swapped, one dropped or one doubled."""
    words = text.split(" ")
    places = [
        i for i, word in enumerate(words) if len(word) > 4 and word.isalpha() and word.islower()
    ]
    if not places:
        return text
    place = rng.choice(places)
    word = words[place]
    at = rng.randrange(1, len(word) - 1)
    edits = (
        word[:at] + word[at + 1] + word[at] + word[at + 2 :],
        word[:at] + word[at + 1 :],
        word[:at] + word[at] + word[at:],
    )
    words[place] = rng.choice(edits)
    return " ".join(words)


def as_typed(text: str, rng: random.Random, keep: tuple[str, ...] = ()) -> str:
    """`text` as somebody might type it; words in `keep` stay as they are."""
    if rng.random() < 0.06:
        text = with_typo(text, rng)
    if rng.random() < 0.75:
        text = upper_first(text)
    if rng.random() < 0.11:
        text = " ".join(w if any(k in w for k in keep) else w.lower() for w in text.split(" "))
    end = rng.choices(("?", "", ".", " ?", "??"), (70, 20, 7, 2, 1))[0]
    text += end
    if rng.random() < 0.10:
        text = rng.choice(OPENERS) + text
    if rng.random() < 0.07:
        text += rng.choice(CLOSERS)
    return text
