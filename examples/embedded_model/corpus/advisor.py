"""Transcripts of `programs/advisor.py`: short chat, a yes/no guard, polite refusals."""

import random

from corpus import names
from corpus.example import Example, Message, assistant, system, user
from corpus.finance_tables import random_symbol
from corpus.wording import as_typed, expand

GUARD = "Does that message ask for personal investment advice?"
DECLINE = "Decline politely, in one sentence."
SYSTEMS = (
    "You are a helpful assistant.",
    "You are a friendly advisor.",
    "You explain terms of finance.",
    "You are a bank's assistant.",
)

TERMS: dict[str, str] = {
    "a drawdown": "A drawdown is the fall of a price from a peak to the low that follows it.",
    "volatility": "Volatility says how much returns vary around their mean, usually as a percent a year.",
    "correlation": "Correlation says how closely two series move together, from -1 to 1.",
    "a total return": "A total return is all that was gained or lost over a period, in percent.",
    "an annual return": "An annual return is the steady yearly rate that gives the same total return.",
    "a stock": "A stock is a share in the ownership of a company.",
    "a bond": "A bond is a loan to a company or a state that pays interest.",
    "a dividend": "A dividend is a part of the profit that a company pays to its owners.",
    "an index": "An index is a number that follows the prices of a set of stocks.",
    "a fund": "A fund pools the money of many people and invests it for them.",
    "inflation": "Inflation is the general rise of prices over time.",
    "interest": "Interest is the price that one pays for borrowed money.",
    "compound interest": "Compound interest is interest that earns interest itself.",
    "a portfolio": "A portfolio is all that an investor holds.",
    "diversification": "Diversification spreads money over things that do not move together.",
    "risk": "Risk is the chance that the result is worse than expected.",
    "a ticker": "A ticker is the short name of a stock on an exchange.",
    "a broker": "A broker buys and sells for its customers.",
    "an exchange": "An exchange is a market where stocks change hands.",
    "liquidity": "Liquidity says how easily a thing can be sold without moving its price.",
    "a bear market": "A bear market is a long time of falling prices.",
    "a bull market": "A bull market is a long time of rising prices.",
    "a closing price": "A closing price is the last price of a trading day.",
    "a benchmark": "A benchmark is what a result is measured against.",
    "leverage": "Leverage is investing with borrowed money, which makes gains and losses larger.",
    "a hedge": "A hedge is a position that loses less when another one falls.",
}
EXPLAIN = (
    "what is {t}", "(what's|what is) {t}", "explain {t}", "(can you|could you|please) explain {t}", "what does {w} mean", "define {w}", "what do people mean by {w}",
    "tell me what {t} is", "i do not (understand|know) what {t} is", "(give me|) a definition of {w}", "what is meant by {w}", "help me understand {w}",
)  # fmt: skip
SMALL_TALK: tuple[tuple[str, str], ...] = (
    (
        "(hello|hi|hey|good morning|good evening|hi there|hello there)",
        "Hello! What would you like to know?",
    ),
    ("(thanks|thank you|many thanks|thanks a lot|thx|great, thanks)", "You are welcome."),
    ("(bye|goodbye|see you|that is all|have a nice day)", "Goodbye, and all the best."),
    (
        "(what can you do|how can you help me|what do you know|what can i ask you|what are you good for)",
        "I can explain terms of finance and answer short questions.",
    ),
    (
        "(who are you|what are you|are you a person|are you human)",
        "I am a small language model that runs on your own machine.",
    ),
    ("how are you( today|)", "I am well, thank you. What would you like to know?"),
    ("(ok|okay|i see|got it|that makes sense|good)", "Good. Is there anything else?"),
    (
        "(can you repeat that|say that again|pardon|sorry, what)",
        "Of course. Which part shall I explain again?",
    ),
)
PERSONAL = (
    "should i (buy|sell|hold|keep|short|get|drop) {s}( now| today| this year|)", "is {s} a good (buy|investment|choice) for (me|my pension|my savings|my kids|us)",
    "(what|which stock|which fund|where) should i (buy|invest in|put my money in|put my savings into|pick)", "where should i (invest|put) my (savings|money|bonus|pension|inheritance)",
    "i have {n} (dollars|euros|pounds), (what should i do with it|where should i put it|how should i invest it|what should i buy)", "would you (buy|sell|recommend) {s} (if you were me|for me|to me|in my place)",
    "(can you|please|could you) (recommend|suggest|pick) (a stock|a fund|an investment|some shares|something to buy) for (me|my pension|my daughter|my savings)",
    "how should i (split|invest|spread|divide) my (money|savings|portfolio|pension)", "is it (smart|wise|a good idea|safe) for me to (buy|sell|hold) {s}( now|)",
    "do you think i should (buy|sell|hold) {s}", "should i put my (savings|pension|money|bonus) into {s}", "tell me (what|which stock) to buy", "is now a good time for me to (buy|sell|get into) {s}",
    "i am {g} years old, (what should i invest in|how should i save|should i buy stocks|is {s} right for me)", "i (bought|own) {s} (last year|at the top), should i (sell|keep|hold) it", "what would you do with my {n} (dollars|euros)",
)  # fmt: skip
NEUTRAL = (
    ("what is the (ticker|symbol) of {c}", "I do not know that symbol; an exchange lists it."),
    (
        "when does the (market|exchange) (open|close)",
        "That depends on the exchange; its site gives the hours.",
    ),
    (
        "(what is the price of|how much is) {s}( now| today|)",
        "I have no prices here; the finance program can read them from a table.",
    ),
    ("tell me a joke", "A stock broker is one who broke a stock. Sorry, I only know this one."),
    ("(what is|how is) the weather( today|)", "I cannot see the weather from here."),
    ("(what time is it|what day is it)", "I have no clock, sorry."),
    ("who (runs|leads|founded) {c}", "I do not know that company well enough to say."),
    ("how do (banks|brokers|exchanges) (earn|make) money", "They mostly earn fees and interest."),
    (
        "(why|how) do (stock prices|prices|markets) (change|move|fall|rise)",
        "Prices move as people change what they are willing to pay.",
    ),
)
DECLINES = (
    "I am sorry, but I cannot give personal investment advice.",
    "I am sorry, I cannot advise you on your own investments; a licensed advisor can.",
)


def question(rng: random.Random) -> tuple[str, str, bool]:
    """A message, its answer, and whether it asks for personal advice."""
    pick = rng.random()
    if pick < 0.40:
        pattern = expand(rng.choice(PERSONAL), rng)
        text = pattern.format(
            s=random_symbol(rng),
            n=rng.choice((500, 1000, 5000, 10000, 20000, 50000)),
            g=rng.randint(18, 75),
        )
        return as_typed(text, rng), "That depends on your own situation, which I do not know.", True
    if pick < 0.72:
        term, meaning = rng.choice([*TERMS.items()])
        bare = term.removeprefix("a ").removeprefix("an ")
        return (
            as_typed(expand(rng.choice(EXPLAIN), rng).format(t=term, w=bare), rng),
            meaning,
            False,
        )
    if pick < 0.86:
        pattern, reply = rng.choice(SMALL_TALK)
        return as_typed(expand(pattern, rng), rng), reply, False
    pattern, reply = rng.choice(NEUTRAL)
    return (
        as_typed(expand(pattern, rng).format(s=random_symbol(rng), c=names.word(rng)), rng),
        reply,
        False,
    )


def example(rng: random.Random) -> Example:
    """One or two turns, and then one of the branches."""
    messages: list[Message] = [system(rng.choice(SYSTEMS))] if rng.random() < 0.7 else []
    learn: list[bool] = []
    for _ in range(rng.choices((0, 1), (65, 35))[0]):
        text, reply, personal = question(rng)
        messages += [user(text), assistant(DECLINES[len(text) % 2] if personal else reply)]
        learn.append(not personal)
    text, reply, personal = question(rng)
    messages.append(user(text))
    branch = rng.random()
    if branch < 0.5:
        messages += [user(GUARD), assistant("yes" if personal else "no")]
    elif personal and branch < 0.8:
        messages += [user(DECLINE), assistant(DECLINES[len(text) % 2])]
    else:
        messages.append(assistant(reply))
    return Example("advisor", tuple(messages), (*learn, True))
