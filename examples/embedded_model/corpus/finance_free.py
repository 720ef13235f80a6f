"""Questions in no fixed order: the same ingredients as telegrams, with fronted qualifiers, and amid small talk.

The patterns of `finance_words` are sentences; these are what people write when they do not bother to build one.
"""

import random
from collections.abc import Sequence

from corpus.finance_words import NOUNS
from corpus.wording import expand

CUES = (
    "compare", "which is ahead", "who is ahead", "which one", "who", "better one", "the higher one", "which is it", "which has more", "head to head", "a comparison",
    "comparison please", "the winner", "side by side", "ranking", "rank them", "first place", "which of the two", "who leads", "which leads", "name the leader",
)  # fmt: skip
PAIRS = ("{a} or {b}", "{a} vs {b}", "{a} versus {b}", "{a} against {b}", "{a} or else {b}", "{a} / {b}", "{a} compared with {b}", "{a} compared to {b}", "{a} next to {b}", "either {a} or {b}", "{a} rather than {b}")  # fmt: skip
TOGETHER = (
    "{a} and {b}",
    "{a} with {b}",
    "{a} & {b}",
    "{a}, {b}",
    "the pair {a} and {b}",
    "{a} together with {b}",
    "between {a} and {b}",
)
LINKED = ("correlation", "the correlation", "correlation coefficient", "how correlated", "moves together or not", "linked or not", "how they move together", "dependence of the returns", "do they go together")  # fmt: skip
FRONTED: dict[str, tuple[str, ...]] = {
    "prices": ("in terms of price, ", "pricewise, ", "about the price: ", "speaking of prices, "),
    "total_return": ("in total, ", "all in all, ", "in terms of return, ", "on total return: ", "return-wise, ", "as a whole, "),
    "annual_return": ("annually, ", "on average per year, ", "as a yearly rate, ", "in yearly terms, ", "on an annual basis, ", "annualised, ", "year by year on average, ", "each year on average, ", "per annum, "),
    "volatility": ("in terms of risk, ", "on volatility: ", "risk-wise, ", "as for risk, ", "looking at volatility, ", "by standard deviation, "),
    "drawdown": ("in terms of drawdown, ", "on drawdown: ", "as for losses from a peak, ", "from peak to trough, ", "looking at the worst decline, "),
}  # fmt: skip
BARE = (
    "who (did|was|came out) (better|worse|ahead|higher|lower) {p}, {l}", "which (one|share|) (had more|was higher|was ahead|came first|scored higher|had less|was lower) {p}, {l}",
    "{a} or {b} {p}", "how do {n} compare {p}", "compare {n} {p}", "is {a} ahead of {b} {p}", "put {a} next to {b} {p}", "who leads {p}, {l}", "which is the (better|worse|higher|lower|bigger|smaller) of {n} {p}",
)  # fmt: skip
GAINED = ("who (earned|gained|made|returned|grew|rose) (more|the most|less) {p}, {l}", "which (earned|gained|made|returned|grew|rose) (more|the most|less) {p}, {l}", "did {a} (earn|gain|make|return|grow) more than {b} {p}", "{l}, who (gained|made|earned) more {p}")  # fmt: skip
PEOPLE = ("my (boss|aunt|uncle|teacher|colleague|client|neighbour|sister|father|wife|husband|friend|cousin|manager|professor|customer|editor|grandmother)", "a (friend|colleague|reader|student|client|customer|journalist) of mine", "our (team|club|class|board|accountant|chief)", "somebody", "the (client|teacher|boss)", "everyone here")  # fmt: skip
BEFORE = (
    "{who} (asks|asked me|wants to know|would like to know|needs to know|is curious|keeps asking|has a question|wonders)(:|.|,)", "{who} (says|said|claims|thinks|believes|told me) (it was a good time|prices fell|markets were wild|it paid off|stocks are dangerous|nothing happened)(.|;|, but)",
    "i am (writing|preparing|reading|finishing|working on) (a|an old|a short) (article|talk|paper|report|letter|blog post|presentation|chapter)(.|,|:|;)", "i (was|am) (wondering|curious|not sure|thinking|confused|trying to learn)(.|:|,|;)",
    "(we|i) (need|want) (this|a number|one figure|the facts) for (a meeting|a talk|homework|a bet|the board|my diary|a chart|a quiz)(.|:|;)", "(let us|let's) (see|start|look at the data|begin|be precise)(.|:|,)", "(forgive me|sorry), (another|one more|a silly|a quick) question(.|:)",
    "(assume|say|suppose|imagine|pretend) (you are my analyst|i know nothing|we look back|somebody was patient|i was there)(.|:|,|;)", "(here is|this is) (my|a|the next) (question|task|request)(.|:)", "(hm|well|right|fine|okay|alright)(,|.|;)", "i (worked|lived|read|heard) (about|of|on) (this|markets|shares) (once|before|long ago)(.|;|,)",
    "(no rush|briefly|in short|in one line|quickly|to be exact|be honest|for the record)(:|,|.|;)", "(there was|we had) a (debate|discussion|bet|talk) (at lunch|yesterday|about this|in class)(.|:|;)",
)  # fmt: skip
AFTER = (
    "{who} (asks|wants to know|needs it|is waiting|bet on it)(.|)", "(a number|one figure|a short answer|the facts|two digits) (will do|is enough|is fine|suffices)(.|)", "(i am|we are) (curious|in a hurry|not sure|writing a report)(.|)", "(that is|this is) (all|for a talk|for homework|what i need|the question)(.|)",
    "(tell me|let me know|say it) (briefly|please|in percent|in one line|exactly)(.|)", "(who|what) (else|a question)(.|)", "(much|very) appreciated(.|)", "what do the data say", "what does the table say", "what is the figure", "what would the number be",
)  # fmt: skip
ABOUT = ("i am (reading|thinking|writing|talking|asking) about {s}(.|:|,|;)", "{s} (interests me|is my favourite|is what i own|is on my list|it is)(.|:|;)", "(take|consider|look at|think of|let us take|let us talk about|back to|as for|about|regarding|concerning) {s}(.|:|,|;)", "i (own|owned|bought|sold|like|watch|follow|know) {s}(.|;|,)", "{who} (owns|owned|bought|likes|watches|follows) {s}(.|;|,)")  # fmt: skip
IT = ("it", "it", "the stock", "the share", "that stock", "this one", "that share", "this stock")


def telegram(rng: random.Random, metric: str) -> str:
    """Symbol, figure and period in any order."""
    parts = ["{s}", expand(NOUNS[metric], rng), "{p}"]
    return _shuffled(rng, parts)


def telegram_of_two(rng: random.Random, metric: str) -> str:
    """Two symbols, figure, period and a cue that they are to be compared, in any order."""
    noun = expand(NOUNS[metric], rng)
    if rng.random() < 0.3:
        lead = rng.choice(("(by|on|for|in)", "(more|higher|better|lower|less|bigger|greater)"))
        noun = f"{expand(lead, rng)} {noun}"
    parts = [rng.choice(PAIRS), noun, "{p}"]
    if rng.random() < 0.75:
        parts.append(rng.choice(CUES))
    return _shuffled(rng, parts)


def telegram_of_relation(rng: random.Random) -> str:
    """Two symbols, their correlation and a period, in any order."""
    return _shuffled(rng, [rng.choice(TOGETHER), rng.choice(LINKED), "{p}"])


def fronted(rng: random.Random, metric: str) -> str:
    """A comparison that names its figure up front and stays vague afterwards."""
    plain = GAINED if metric in ("total_return", "annual_return") and rng.random() < 0.6 else BARE
    return rng.choice(FRONTED[metric]) + expand(rng.choice(plain), rng)


def amid_talk(rng: random.Random, question: str) -> str:
    """The question with a clause before or after it that says nothing about it."""
    before = expand(rng.choice(BEFORE), rng) if rng.random() < 0.7 else ""
    after = expand(rng.choice(AFTER), rng) if not before or rng.random() < 0.2 else ""
    who = expand(rng.choice(PEOPLE), rng)
    text = f"{before} {question}{rng.choice(('?', '.', '?', ',', '')) if after else ''} {after}"
    return " ".join(text.replace("{who}", who).split())


def told_before(rng: random.Random, question: str) -> str:
    """The symbol in a clause of its own, then a question about `it`."""
    about = expand(rng.choice(ABOUT), rng).replace("{who}", expand(rng.choice(PEOPLE), rng))
    it = rng.choice(IT)
    return f"{about} " + question.replace("{s}'s", "its").replace("{s}", it)


def _shuffled(rng: random.Random, parts: Sequence[str]) -> str:
    order = rng.sample(list(parts), len(parts))
    text = order[0]
    for part in order[1:]:
        text += rng.choice((", ", ", ", " ", " ", ": ", "; ", ". ", " - ", "? ")) + part
    return text
