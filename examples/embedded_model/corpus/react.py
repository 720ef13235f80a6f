"""Transcripts of `programs/react.py`: invented gazetteers, questions about them, the real search over them."""

import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from corpus import names
from corpus.example import (
    PROGRAMS,
    Example,
    Message,
    assistant,
    assistant_calls,
    compact,
    system,
    tool_result,
    tool_spec,
    user,
)  # fmt: skip
from corpus.wording import as_typed, expand

sys.path.insert(0, str(PROGRAMS))
from gazetteer import Passage, best, growth

SYSTEM = "Use tools until you can answer."
TOOLS = (
    tool_spec("search", "The passage that fits best.", ("query",)),
    tool_spec("growth", str(growth.__doc__), ("old", "new")),
)


@dataclass(frozen=True, slots=True)
class Fact:
    """One sentence about a thing, the questions that it answers, and the answer."""

    sentence: str
    questions: tuple[str, ...]
    answer: str
    numbers: tuple[str, str] | None = None  # old and new, where the question asks for growth


def river(rng: random.Random, sea: str) -> tuple[str, list[Fact]]:
    """A river."""
    name, km = f"the {names.word(rng)}", rng.randint(40, 4000)
    flow = expand("(It |It |The river )(flows|runs|empties) into {sea}.", rng).format(sea=sea)
    return name, [
        Fact(expand(f"It is {km} km long|The river is {km} km long|Its length is {km} km".join("()"), rng) + ".", (f"how long is (the river |){name}", f"what (length|is the length) (has|of) {name}".replace("(length|is the length) (has|of)", "is the length of"), f"how many kilometres (long is|does) {name}".replace("(long is|does)", "long is")), f"{km} km"),
        Fact(flow, (f"(into what|where) does {name} flow", f"(what|which water) does {name} (flow|run|empty) into", f"where does {name} end"), sea),
    ]  # fmt: skip


def town(rng: random.Random, stream: str) -> tuple[str, list[Fact]]:
    """A town on a river."""
    name = names.place(rng)
    y1 = rng.choice((1950, 1960, 1970, 1980, 1990, 2000))
    y2 = y1 + rng.choice((10, 20, 30))
    old, new, founded = rng.randint(900, 99000), rng.randint(900, 99000), rng.randint(700, 1950)
    people = rng.choice(
        (
            f"It had {old} people in {y1} and {new} in {y2}.",
            f"{old} people lived there in {y1}, {new} in {y2}.",
            f"Its population was {old} in {y1} and {new} in {y2}.",
        )
    )
    return name, [
        Fact(rng.choice((f"It lies on {stream}.", f"The town lies on {stream}.", f"It stands on {stream}.")), (f"on (which|what) river (does|is) {name}(| lie| stand)".replace("(does|is)", "is").replace("(| lie| stand)", ""), f"(which|what) river does {name} lie on", f"what river runs through {name}"), stream),
        Fact(rng.choice((f"It was founded in {founded}.", f"The town was founded in {founded}.", f"It dates from {founded}.")), (f"when was {name} founded", f"in (which|what) year was {name} (founded|set up|started)", f"(how old|what age) is {name}".replace("(how old|what age) is", "from what year is")), str(founded)),
        Fact(people, (f"how many people (lived|were living) in {name} in {y1}", f"what was the population of {name} in {y1}", f"how (big|large) was {name} in {y1}"), str(old)),
        Fact(people, (f"how many people (lived|were living) in {name} in {y2}", f"what was the population of {name} in {y2}", f"how (big|large) was {name} in {y2}"), str(new)),
        Fact(people, (f"(by how many percent|by how much) did {name} grow from {y1} to {y2}", f"how much did (the population of |){name} grow (between {y1} and {y2}|from {y1} to {y2})", f"what was the growth of {name} from {y1} to {y2}", f"(by how many percent|how much) did the population of {name} (change|grow|rise) (between {y1} and {y2}|from {y1} to {y2})"), "", (str(old), str(new))),
        Fact(people, (f"(by how many percent|by how much) did {name} grow from {y1} to {y2}", f"what growth did {name} see between {y1} and {y2}", f"how (fast|much) did {name} grow from {y1} to {y2}"), "", (str(old), str(new))),
    ]  # fmt: skip


def mountain(rng: random.Random) -> tuple[str, list[Fact]]:
    """A mountain."""
    name, height, climber, year = (
        f"Mount {names.word(rng)}",
        rng.randint(400, 8000),
        names.person(rng),
        rng.randint(1750, 1990),
    )
    climbed = rng.choice(
        (
            f"{climber} climbed it first, in {year}.",
            f"It was first climbed in {year} by {climber}.",
            f"The first to climb it was {climber} in {year}.",
        )
    )
    return name, [
        Fact(rng.choice((f"It is {height} m high.", f"It rises to {height} m.", f"Its top is at {height} m.")), (f"how (high|tall) is {name}", f"what is the height of {name}", f"how many metres high is {name}"), f"{height} m"),
        Fact(climbed, (f"who (first climbed|climbed) {name}( first|)", f"who was the first to climb {name}", f"who was first on {name}"), climber),
        Fact(climbed, (f"when was {name} first climbed", f"in (which|what) year was {name} (first |)climbed"), str(year)),
    ]  # fmt: skip


def lake(rng: random.Random) -> tuple[str, list[Fact]]:
    """A lake."""
    name, depth, area = f"Lake {names.word(rng)}", rng.randint(5, 900), rng.randint(2, 3000)
    return name, [
        Fact(rng.choice((f"It is {depth} m deep.", f"The lake is {depth} m deep.", f"Its greatest depth is {depth} m.")), (f"how deep is {name}", f"what is the depth of {name}", f"what depth does {name} reach"), f"{depth} m"),
        Fact(rng.choice((f"It covers {area} km2.", f"Its area is {area} km2.", f"It has an area of {area} km2.")), (f"how (large|big) is {name}", f"what is the area of {name}", f"what area does {name} cover"), f"{area} km2"),
    ]  # fmt: skip


def bridge(rng: random.Random, stream: str) -> tuple[str, list[Fact]]:
    """A bridge over a river."""
    name, length, year, builder = (
        f"{names.word(rng)} Bridge",
        rng.randint(30, 3000),
        rng.randint(1500, 2015),
        names.person(rng),
    )
    return name, [
        Fact(rng.choice((f"It crosses {stream}.", f"The bridge crosses {stream}.", f"It spans {stream}.")), (f"(which|what) river does (the |){name} (cross|span)", f"what does (the |){name} (cross|span)"), stream),
        Fact(rng.choice((f"It is {length} m long.", f"Its length is {length} m.")), (f"how long is (the |){name}", f"what is the length of (the |){name}"), f"{length} m"),
        Fact(rng.choice((f"{builder} designed it.", f"It was designed by {builder}.", f"Its designer was {builder}.")), (f"who (designed|built) (the |){name}", f"who was the designer of (the |){name}"), builder),
        Fact(rng.choice((f"It opened in {year}.", f"It was opened in {year}.")), (f"when did (the |){name} open", f"in (which|what) year did (the |){name} open", f"when was (the |){name} opened"), str(year)),
    ]  # fmt: skip


def title_of(name: str) -> str:
    """The title of the passage about `name`."""
    return name.removeprefix("the ")


def example(rng: random.Random) -> Example:
    """A transcript over a fresh gazetteer."""
    sea = rng.choice(
        (f"the {names.word(rng)} Sea", f"Lake {names.word(rng)}", f"the Gulf of {names.word(rng)}")
    )
    waters = [river(rng, sea) for _ in range(2)]
    things = [
        *waters,
        town(rng, waters[0][0]),
        town(rng, waters[1][0]),
        mountain(rng),
        lake(rng),
        bridge(rng, waters[0][0]),
    ]
    shelf = [
        Passage(title=title_of(name), text=describe(rng, name, facts)) for name, facts in things
    ]
    rng.shuffle(shelf)
    if rng.random() < 0.12:
        return two_hops(rng, shelf, things[2][0], waters[0][0], sea)
    name, facts = rng.choices(things, (2, 1, 4, 2, 2, 2, 3))[0]
    fact = rng.choice(facts)
    found = best(title_of(name), shelf)
    messages = start(rng, rng.choice(fact.questions), name) + searched(title_of(name), found)
    text = fact.answer
    if fact.numbers is not None:
        old, new = fact.numbers
        change = growth(float(old), float(new))
        messages += [
            assistant_calls([("growth", {"old": int(old), "new": int(new)})]),
            tool_result(compact(change)),
        ]
        text = f"{compact(change)} %"
    return finish(messages, text, [found.title])


def two_hops(
    rng: random.Random, shelf: Sequence[Passage], place: str, stream: str, sea: str
) -> Example:
    """A question whose answer needs what the first search finds."""
    first, second = best(place, shelf), best(title_of(stream), shelf)
    question = rng.choice((
        f"into what does the river (of|through|at) {place} flow", f"where does the river that runs through {place} (end|flow)",
        f"what does the river of {place} (flow|run) into",
    ))  # fmt: skip
    messages = (
        start(rng, question, place) + searched(place, first) + searched(title_of(stream), second)
    )
    return finish(messages, sea, [first.title, second.title])


def describe(rng: random.Random, name: str, facts: Sequence[Fact]) -> str:
    """The facts as a passage."""
    kind = {"the": "a river", "Mou": "a mountain", "Lak": "a lake"}.get(
        name[:3], "a bridge" if name.endswith("Bridge") else "a town"
    )
    sentences = list(dict.fromkeys(fact.sentence for fact in facts))
    rng.shuffle(sentences)
    subject = name[0].upper() + name[1:]
    return " ".join(
        [f"{subject} is {kind} {rng.choice(('in', 'of'))} {names.word(rng)}.", *sentences]
    )


def start(rng: random.Random, question: str, name: str) -> list[Message]:
    """The system message and the question."""
    return [system(SYSTEM), user(as_typed(expand(question, rng), rng, tuple(name.split())))]


def searched(query: str, found: Passage) -> list[Message]:
    """A search and what it found."""
    result = compact({"title": found.title, "text": found.text})
    return [assistant_calls([("search", {"query": query})]), tool_result(result)]


def finish(messages: Sequence[Message], text: str, sources: list[str]) -> Example:
    """The transcript with its answer."""
    every = (*messages, assistant(compact({"text": text, "sources": sources})))
    return Example("react", every, (True,) * sum(m["role"] == "assistant" for m in every), TOOLS)
