"""Questions of two halves: both answered, or one that closing prices do not tell, which leaves the whole unanswered.

The half that decides comes first or last, as a sentence of its own or as a few words at the end, in the company of a
half that a tool answers: a model that looks at one half alone cannot tell.
"""

import random
from collections.abc import Callable

from corpus import finance_patterns, patterns
from corpus.asked import Asked, call, compared, mention, no_answer, some, stranger
from corpus.finance_figures import lacked
from corpus.finance_patterns import COMPARED, Draw, Filled
from corpus.finance_tables import closes
from corpus.finance_words import NOUNS
from corpus.wording import expand

LINKS = (", and ", " and ", "? ", "? And ", "? Also, ", "; ", ". ", ", then ", ", and also ", ". Second, ", " as well as: ", ". Besides, ", "? One more: ", " / ", ". And then ", " - and ")  # fmt: skip
ANSWERED = (
    finance_patterns.one_figure,
    finance_patterns.one_figure,
    finance_patterns.comparison,
    finance_patterns.related,
)
UNANSWERED = (
    finance_patterns.unanswered,
    finance_patterns.unanswered,
    finance_patterns.border_of_none,
    finance_patterns.lacking,
)
MORE = (" and its {x}", ", and its {x}", " plus its {x}", ", as well as its {x}", " together with its {x}", ", and what was its {x}", ". what about its {x}", ", also the {x}", ", next to its {x}", ", with the {x} beside it", ", and how about the {x}", " and the {x} too")  # fmt: skip
TAILS = {
    "figure": (
        ", and why", "and what caused it", ", and who was to blame", "and what did it earn as a business", ", dividends included", ", after tax", "and in euros", ", and how does that compare with the (index|market|sector)", ", adjusted for inflation", "and was that better than (gold|bonds|the market|inflation)",
        ", and on what news", ", and how many shares changed hands", "and how many people worked there", ", and what did analysts say", "and what multiple of its earnings is that", ", net of (fees|costs|my broker's cut)", ", and what would I have owed in tax", ", and did insiders (buy|sell)", "and who was in charge then", ", counted in (gold|bitcoin|pounds)",
    ),
    "future": (", and what comes next", "and where will it go from here", ", and will that go on", "and what can I expect next year", ", and when does it recover", ", and your forecast for the year after the data", "and will it do so again", ", and how likely is that next year", ". what about next year", "and is a crash coming"),
    "advice": (", and should I buy it", "and is it a buy now", ", and would you keep it", ", so do I sell", ". worth buying, then", "and is it right for my pension", ", and how much of it should I own", ". tell me whether to hold on to it", "and what would you do with it", ", and is it a safe home for my savings"),
    "period": (", day by day", ", week by week", "and on which day exactly", ", hour by hour", "and at what time of day", ", broken down by weekday", ", and the same (on the day that we met|since my wedding)", ", and in the week after"),
}  # fmt: skip
KNOWN_TAILS = ("", "", ", in percent", ", going by the closes", ", to two digits", "in numbers", ", prices alone", ", as far as the data go", ", whatever the reason", ", nothing else", ", no forecast please", ", just the past", ", without advice", ", for the record")  # fmt: skip


def ask(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """A question of two halves."""
    kinds: tuple[Callable[[random.Random, closes.Table, Draw], Asked], ...] = (sentences, further, tail, beside)  # fmt: skip
    return rng.choices(kinds, (38, 22, 24, 16))[0](rng, table, period)


def sentences(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """Two sentences, of which one may lack an answer."""
    one = rng.choice(ANSWERED)(rng, table, period)
    if rng.random() < 0.5:
        other = rng.choice(ANSWERED)(rng, table, period)
        text = one.question + rng.choice(LINKS) + other.question
        return Asked(text, one.calls + other.calls, one.keep + other.keep)
    other = rng.choice(UNANSWERED)(rng, table, period)
    halves = [one.question, other.question]
    rng.shuffle(halves)
    return Asked(rng.choice(LINKS).join(halves), other.calls, one.keep + other.keep)


def further(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """One figure of a symbol, and the name of a further one that a tool computes or that none does."""
    name = rng.choice(COMPARED)
    filled = Filled(rng, table, patterns.draw(rng, name), period)
    (symbol,) = some(rng, table, 1)
    text = filled.about([mention(rng, table, symbol)])
    more = rng.choice(MORE)
    if rng.random() < 0.45:
        second = rng.choice([one for one in COMPARED if one != name])
        text += more.replace("{x}", expand(NOUNS[second], rng))
        calls = tuple(call(tool, symbol, filled.period) for tool in (name, second))
        return Asked(text, calls, (symbol,))
    return Asked(text + more.replace("{x}", lacked(rng)), (no_answer("figure"),), (symbol,))


def tail(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """A question with a few words behind it that ask for more than closes tell, or that do not."""
    one = rng.choice(ANSWERED)(rng, table, period)
    if rng.random() < 0.4:
        return Asked(_ended(one.question, rng.choice(KNOWN_TAILS)), one.calls, one.keep)
    reason = rng.choices([*TAILS], (44, 20, 20, 16))[0]
    text = _ended(one.question, expand(rng.choice(TAILS[reason]), rng))
    return Asked(text, (no_answer(reason),), one.keep)


def beside(rng: random.Random, table: closes.Table, period: Draw) -> Asked:
    """Several symbols by a metric, all of the table or one a stranger."""
    metric = rng.choice(COMPARED)
    filled = Filled(rng, table, patterns.draw(rng, f"compare_{metric}"), period)
    symbols = some(rng, table, filled.count(rng))
    said = [mention(rng, table, symbol) for symbol in symbols]
    if rng.random() < 0.5:
        return Asked(
            filled.about(said), (compared(metric, symbols, filled.period),), tuple(symbols)
        )
    # a pattern about two symbols says the first and the last of these
    said[rng.choice((0, -1)) if len(said) < 3 else rng.randrange(len(said))] = stranger(rng, table)
    return Asked(filled.about(said), (no_answer("symbol"),), tuple(said))


def _ended(question: str, tail: str) -> str:
    """A question with a tail: after a comma or a full stop at once, else after a space."""
    return question + (tail if not tail or tail[0] in ",." else f" {tail}")
