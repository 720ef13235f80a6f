"""Questions that closing prices do not answer, by what they lack.

`{s}` is a symbol, `{l}` and `{n}` are lists of two, `{p}` is a period, `{t}` a figure that no tool computes.
"""

import random

from corpus import names
from corpus.finance_figures import lacked
from corpus.wording import expand

ABOUT_FIGURES = (
    "(what was|what is|what's|give me|tell me|show me|find|compute|i need|look up) the {t} (of|for) {s} {p}", "what was {s}'s {t} {p}", "{s} {t} {p}", "{t} of {s} {p}", "{t} {s} {p}",
    "how (high|large|big|good) was the {t} of {s} {p}", "did the {t} of {s} (rise|grow|fall|change|improve) {p}", "what {t} did {s} (have|report|show|post|pay) {p}",
    "which had the (higher|lower|better|larger) {t} {p}, {l}", "compare the {t} of {n} {p}", "how did the {t} of {s} develop {p}", "(list|report|show) {s}'s {t} {p}",
    "how much {t} did {s} (have|make|report|pay|show) {p}", "do you know the {t} of {s} {p}", "rank {n} by {t} {p}", "rank all stocks by {t} {p}", "which (stock|company|symbol|one) had the (highest|lowest|best|largest) {t} {p}",
    "between {n}, which had more {t} {p}", "is there data on the {t} of {s} {p}", "{s}: {t} {p}",
)  # fmt: skip
OTHER_FIGURES = (
    "how many (employees|people|shares|customers|patents|stores|users|workers|factories|shareholders|products|countries) (did|does) {s} (have|employ|sell|own|issue|count|hold|reach) {p}",
    "who (ran|leads|led|founded|owns|owned|managed|was the boss of|was CEO of|audited|chaired) {s} {p}", "(did|when did|how often did) {s} (pay|raise|cut|announce|skip) (a|its|the|any) dividend(s|) {p}",
    "how many shares of {s} (changed hands|were traded|were sold|were bought back|were issued) {p}", "(when|how often|did|in what ratio did) {s} (split|split its stock|split its shares|issue new shares|buy back shares) {p}",
    "why did {s} (fall|rise|drop|crash|gain so much|lose so much|do so badly|jump) {p}", "what (caused|explains|was behind|triggered) the (fall|rise|drop|crash|rally|slump) of {s} {p}", "what does {s} (sell|make|produce|do|stand for|earn its money with)",
    "how much (did|does) {s} (earn per share|sell|spend on research|owe|pay its boss|pay in taxes|spend|borrow) {p}", "was {s} (overvalued|undervalued|cheap relative to its earnings|expensive for its earnings|profitable as a business|in debt|solvent) {p}",
    "(did|by how much did) {s} beat (the market|the index|inflation|its benchmark|the S&P 500|the Dow|bonds|gold|the risk-free rate|its sector|its peers) {p}", "how did {s} do (against|compared to|relative to) (the index|the market|gold|inflation|bonds|its sector|oil) {p}",
    "what was the (market|index|gold price|interest rate|inflation rate|oil price|exchange rate|unemployment rate|GDP) (doing|) {p}", "what was {s} worth in (euros|pounds|yen|francs|gold|today's money) {p}", "where is {s} (based|listed|headquartered|traded)",
    "how many (days|years|times|weeks) did {s} (rise|fall|gain|lose|close higher|need to recover|set a record|hit a high) {p}", "on which (day|weekday|date) did {s} (peak|fall the most|rise the most|bottom|open) {p}", "what (news|events|scandals|rumours) (moved|hit|helped) {s} {p}",
    "which (stock|company|symbol|one) (paid|had|employed|sold) the most (dividends|debt|people|products|cash|patents) {p}", "what did the (analysts|experts|papers|press|board) (say|think|write) (about|of) {s} {p}", "how (popular|famous|big|old|green|large a company) (is|was) {s} {p}",
)  # fmt: skip
FUTURE = (
    "what will {s} (cost|return|be worth|trade at|close at|do|gain|earn|be) (next year|tomorrow|next month|in five years|in the future|by the end of next year|next quarter|in ten years|one year from now|soon|next week|after the data end)",
    "(will|is|are) {s} (going to |likely to |)(rise|fall|go up|go down|recover|beat {x}|crash|gain|double|lose|keep rising) (next year|tomorrow|soon|from here|in the coming years|in the coming months|again|)", "(predict|forecast|project|estimate|extrapolate|guess) (the price of|the return of|the volatility of|the risk of|) {s} (for|in|over|) (next year|the next five years|the coming year|tomorrow|the next decade|next month|the future|)",
    "where (will|do you see) {s} (be |) (in a year|in five years|in ten years|next summer|by next Christmas|a decade from now)", "how (high|low|volatile|much higher) will {s} (be|go|get|become) (next year|in the coming months|soon|in a few years|eventually|)", "what is the (outlook|forecast|expected return|expected price|projected return|prognosis|probability of a loss|chance of a gain) (of|for) {s} (next year|for the coming year|in the years ahead|)",
    "which will (return|gain|do|perform|rise|grow) (more|better|the most) (next year|from now on|in the future|in the coming years|over the next decade), {l}", "when will {s} (recover|reach a new high|double|bottom out|peak|hit {d})", "how long until {s} (doubles|recovers|reaches {d}|is back at its high)", "what return (can|may|should) (i|we|one) expect from {s} (in future|next year|from here|over the next years|)",
    "will {s} (outperform|beat|overtake|do better than) {x} (next year|in future|in the long run|)", "what happens to {s} (next|if rates rise|if there is a recession|if oil doubles|after this)", "{s} (forecast|outlook|prediction|next year|tomorrow|price next month|in the future)", "assuming the trend goes on, what will {s} be worth (next year|in five years|in a decade)", "what will the (best|worst|top) (stock|performer|company) (be|of next year be)( next year|)",
)  # fmt: skip
ADVICE = (
    "should (i|we|one|my client|my mother) (buy|sell|hold|keep|short|own|get out of|invest in|add to|avoid) {s} (now|today|at this price|this week|before the results|)", "is {s} (a good|a safe|the right|a sensible|a bad) (buy|investment|stock|choice|bet|stock to own) (now|today|for me|for retirement|for a beginner|right now)", "is (it|now) (a good time|the time|too late|the moment|wise) to (buy|sell|get into|invest in|short) {s}", "(would|do|can) you (recommend|advise|suggest|like|trust) (buying |selling |holding |){s}( now| today| for me|)",
    "which (should|shall|would) (i|we) (buy|sell|pick|choose|keep) (now|today|for next year|for my savings|), {l}", "how much of my (savings|money|portfolio|pension) should i put into {s}", "what (should|shall) (i|we) do with my {s} (shares|stock|)", "(buy, sell or hold|buy or sell|hold or sell): {s}", "is {s} (right for me|worth buying|worth the risk|worth holding|too risky for me)", "(pick|choose|recommend|suggest) (a stock|the best stock|something) for (me|my retirement|my children|next year)", "what is the best (portfolio|mix|split|allocation) of {n} (for me|for next year|now|)", "give me (investment advice|a stock tip|a tip|a recommendation)( on {s}| about {s}|)",
    "which (stock|share|one) (should|would) (i|you) (buy|pick|choose)( now| today| next|)", "(hello, |) can i (retire|get rich|double my money) with {s}", "what (stop loss|entry price|exit price|position size) should i (use|set|take) for {s}",
)  # fmt: skip
EVENTS = (
    "(before|after|during|since|until) the (crash|crisis|war|merger|takeover|scandal|election|boom|bubble|recession|lockdown|strike|hurricane|earthquake|product launch|profit warning|bankruptcy|bull market|bear market|reform|split|panic|oil shock|world cup|olympics|flood)",
    "(under|since) the (new|old|former|last) (boss|CEO|management|president|chancellor|government|prime minister|owner)", "while (i|my father|she|he|we) (was|were) (at school|in hospital|abroad|on holiday|married|in prison|asleep|at university)",
    "(since|before|until|after) (i was born|we met|my wedding|the divorce|my retirement|the children left|his death|my last question|their biggest product came out|they moved|the founder left)", "in the (good|bad|golden|happy|dark|lean|early|roaring) (years|times|days|old days)", "in the year of the (great flood|dragon|hot summer|world cup|moon landing|big storm|comet)",
    "(some time ago|a while back|back in the day|once upon a time|a few years ago or so|in those years|back then|at that time|around then|that year|in that period|the other year|when it mattered)", "in the (long|short|medium) run", "when (rates|oil prices|house prices|taxes|interest rates) (rose|fell|were high|were low|collapsed)", "in a (good|bad|typical|normal|leap) year", "(at|around|over) (Christmas|Easter|Thanksgiving|the summer holidays|half-time|lunchtime|the full moon)",
)  # fmt: skip
IMPOSSIBLE = (
    "on the (31st|30th) of February {a}", "in the (13th|14th|twentieth) month of {a}", "in (Q5|Q6|Q0) {a}", "in the (fifth|sixth) quarter of {a}", "in week (54|60|99) of {a}", "in the third half of {a}", "on the 32nd of {m} {a}", "in the year minus (five|ten)", "in the (stone|bronze|ice) age", "in the (middle ages|renaissance)", "in the (ninth|twelfth|sixteenth|seventeenth) century", "under (Napoleon|Queen Victoria|the Romans)",
    "before (money|the stock market|electricity) was invented", "between (then|now) and then", "from (later|the end) to (earlier|the beginning) of time", "in a year that never was", "on another planet", "at the beginning of time", "before the company existed", "before it was (listed|founded)", "after it is (gone|sold|wound up)", "in (neverember|octuary|janember)", "in the month of {m} of no year in particular", "in {m}",
    "every {m}", "on an average {m} day", "in the (spring|autumn) of their youth", "in every (election|olympic|leap) year", "whenever it rained", "each time rates (rose|fell)", "in the year (when|in which) it all (began|went wrong|ended)", "during (their|its) (glory days|dark years|expansion)", "at the (top|bottom) of the (cycle|market)", "in (the|a) (recession|bull market|bear market|downturn)",
)  # fmt: skip
MOMENTS = (
    "(on|as of|at the close of|at the open on) {d} {m} {a}", "(on|as of) {m} {d}, {a}", "(on|as of) {m} {d} {a}", "(on|as of) {a}-{mm}-{dd}", "at (noon|ten o'clock|3 pm|9:30|midday|midnight|the opening bell) on {d} {m} {a}", "on (Monday|Tuesday|Wednesday|Thursday|Friday)(s|)", "in the week of {d} {m} {a}", "in the (first|second|third) week of {m} {a}",
    "between {d} {m} {a} and {e} {m} {a}", "from {m} {d} to {m} {e}, {a}", "(this|last|on) (morning|week|Monday|Friday|afternoon)", "from one day to the next in {m} {a}",
)  # fmt: skip
UNCLEAR = (
    "how did it do {p}", "what was the return {p}", "how much {p}", "and {p}", "how volatile was it {p}", "what about {p}", "tell me more", "how about the other one", "what was the drawdown {p}", "is it good", "which one", "how much did they make {p}", "what was the price {p}",
    "what is the (capital|population|area|currency) of {place}", "who (wrote|painted|invented|discovered|won) (the book|the picture|the telephone|the race|it)", "tell me a (joke|story|poem|riddle)", "what (time|day|year) is it", "how are you", "what is {u} (+|-|times|plus|minus) {v}", "write a (poem|letter|song|program|speech)( about {s}|)",
    "translate (this|{s}|hello) into (French|German|Spanish|Latin)", "what is the weather (in {place}|today|tomorrow|)", "who are you", "can you (cook|sing|fly|drive|help me with my homework)", "what is the meaning of life", "spell {place}", "how far is {place} from {place}", "what (is|does) {s}", "{s}", "{s}?", "tell me about {s}", "asdf", "hmm", "what", "data", "help", "the usual, please", "do it", "please continue", "the same again", "as before",
    "what is (the best film|your favourite colour|a good recipe for soup|the tallest mountain)", "how do i (bake bread|fix a bike|grow tomatoes|reset my password|get to {place})",
)  # fmt: skip


def figure(rng: random.Random) -> str:
    """A question about a figure that no tool computes."""
    if rng.random() < 0.3:
        return rng.choice(OTHER_FIGURES)
    return rng.choice(ABOUT_FIGURES).replace("{t}", lacked(rng))


def future(rng: random.Random) -> str:
    """A question about what is to come; `{x}` is another symbol."""
    return expand(rng.choice(FUTURE), rng).replace("{d}", str(rng.randint(5, 900)))


def advice(rng: random.Random) -> str:
    """A question about what to do."""
    return rng.choice(ADVICE)


def unclear(rng: random.Random) -> str:
    """A question that lacks a symbol or a figure, or is about something else."""
    text = rng.choice(UNCLEAR)
    while "{place}" in text:
        text = text.replace("{place}", names.place(rng), 1)
    return text.replace("{u}", str(rng.randint(2, 99))).replace("{v}", str(rng.randint(2, 99)))


def moment(rng: random.Random, year: int, month: str, at: int) -> str:
    """A time that is no range of months, or that only somebody else knows."""
    pick = rng.random()
    if pick < 0.4:
        return expand(rng.choice(EVENTS), rng)
    d = rng.randint(3, 20)
    text = expand(rng.choice(MOMENTS if pick < 0.78 else IMPOSSIBLE), rng).replace("{a}", str(year)).replace("{mm}", f"{at + 1:02}").replace("{dd}", f"{d:02}")  # fmt: skip
    return text.replace("{m}", month).replace("{d}", str(d)).replace("{e}", str(d + rng.randint(1, 6)))  # fmt: skip
