"""Invented names: of people, places, things. Built from syllables, so that no list of them can be learned."""

import random
import re
from functools import cache

from corpus import patterns

ONSETS = (
    "b",
    "br",
    "c",
    "ch",
    "d",
    "dr",
    "f",
    "g",
    "gr",
    "h",
    "j",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "p",
    "r",
    "s",
    "sh",
    "st",
    "t",
    "th",
    "tr",
    "v",
    "w",
    "z",
    "",
)
VOWELS = ("a", "e", "i", "o", "u", "a", "e", "o", "ai", "ea", "ie", "ou", "ei", "oo")
CODAS = (
    "",
    "",
    "",
    "n",
    "r",
    "l",
    "s",
    "m",
    "t",
    "nd",
    "rk",
    "ll",
    "ss",
    "x",
    "ck",
    "ng",
    "rt",
    "st",
    "v",
)
ENDINGS = (
    "ova",
    "ent",
    "ia",
    "ar",
    "ell",
    "in",
    "or",
    "a",
    "en",
    "o",
    "is",
    "um",
    "ith",
    "berg",
    "ville",
    "ton",
    "ford",
    "stad",
    "mouth",
    "haven",
    "grad",
    "dale",
    "by",
    "field",
    "wick",
    "",
)
GIVEN = ("Anna", "Ben", "Carla", "David", "Elena", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Kim", "Lara", "Mario", "Nadia", "Oscar", "Paula", "Quentin", "Rosa", "Sam", "Tara", "Uwe", "Vera", "Will", "Yara", "Zoe", "Amir", "Bianca", "Chen", "Dana", "Emil", "Fiona", "Georg", "Hanna", "Ivan", "Julia", "Karl", "Lin", "Mia", "Noah", "Olga", "Peter", "Rita", "Sven", "Tom", "Ursula", "Victor", "Wanda", "Yusuf")  # fmt: skip


def word(rng: random.Random, syllables: int | None = None) -> str:
    """A capitalised invented word."""
    count = syllables or rng.choices((1, 2), (60, 40))[0]
    text = "".join(
        rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS) for _ in range(count)
    )
    if count == 1 or rng.random() < 0.3:
        text += rng.choice(ENDINGS)
    return text.capitalize() if len(text) > 2 else word(rng, syllables)


def brand(rng: random.Random) -> str:
    """A capitalised word that a company may be called by: invented, of random letters, or an ordinary word."""
    pick = rng.random()
    if pick < 0.5:
        return word(rng)
    if pick < 0.72:
        return rng.choice(_ordinary()).capitalize()
    count = rng.randint(3, 9)
    letters = [rng.choice("aeiouy" if rng.random() < 0.42 else "bcdfghjklmnpqrstvwxz") for _ in range(count)]  # fmt: skip
    text = "".join(letters).capitalize()
    if pick > 0.97 and count > 5:
        at = rng.randint(2, count - 2)
        text = text[:at] + text[at:].capitalize()
    return text


def slip(rng: random.Random, name: str) -> str:
    """A name with one letter dropped, doubled or swapped with the next, its first one kept."""
    at = rng.randrange(1, len(name) - 1)
    edits = (name[:at] + name[at + 1 :], name[: at + 1] + name[at:], name[:at] + name[at + 1] + name[at] + name[at + 2 :])  # fmt: skip
    return rng.choice(edits)


@cache
def _ordinary() -> tuple[str, ...]:
    """The words of the phrase patterns."""
    every = " ".join(pattern for intent in patterns.intents() for pattern in patterns.of(intent))
    return tuple(sorted(set(re.findall(r"\b[a-z]{4,10}\b", every))))


def place(rng: random.Random) -> str:
    """A town."""
    text = word(rng)
    pick = rng.random()
    if pick < 0.08:
        return (
            f"{rng.choice(('San', 'Port', 'New', 'Saint', 'Fort', 'Upper', 'Old', 'North'))} {text}"
        )
    return (
        f"{text} {rng.choice(('Bay', 'Falls', 'Springs', 'Hill', 'Cross'))}"
        if pick < 0.13
        else text
    )


def person(rng: random.Random) -> str:
    """A given name and a family name."""
    first = rng.choice(GIVEN) if rng.random() < 0.6 else word(rng, 1)
    return f"{first} {word(rng)}"
