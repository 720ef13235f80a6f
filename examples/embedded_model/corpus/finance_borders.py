"""Borders: one way to ask on both sides of what closing prices tell.

A border has frames with a hole, fillers that a tool answers and fillers that none does. Day or month, why or how much,
did or will, here or in the world: the frame is the same, so that only what decides can be learned.
"""

import random
from dataclasses import dataclass

from corpus.finance_figures import lacked
from corpus.wording import expand


@dataclass(frozen=True, slots=True)
class Border:
    """Frames with the hole `{x}`, and what fills it: by the tool that answers, and by the reason why none does.

    A tool is named as the program names it; `compare volatility` is a comparison, `rank volatility` one of all symbols.
    """

    frames: tuple[str, ...]
    known: dict[str, tuple[str, ...]]
    lacking: dict[str, tuple[str, ...]]

    def draw(self, rng: random.Random, known: bool) -> tuple[str, str]:
        """A pattern, and its tool or its reason."""
        side = self.known if known else self.lacking
        name = rng.choices([*side], [len(fillers) + 1 for fillers in side.values()])[0]
        text = rng.choice(self.frames).replace("{x}", rng.choice(side[name]))
        return text.replace("{t}", lacked(rng)), name


PLAIN = ("{x}", "{x}", "{x}", "(tell me|say|let me know), {x}", "{x}, (please|if you can)", "(i would like to know|can you say|do you know|any idea) {x}", "(my question is|what interests me|to be clear): {x}")  # fmt: skip

FINER = Border(
    ("{x}", "{x}", "(give me|find|show|i need|look up|what was|name) {x}", "(please state|could you find|do you have) {x}"),
    {
        "monthly_returns": (
            "the (best|worst|strongest|weakest|ugliest|finest) (single |calendar |)month of {s} {p}", "the (biggest|largest|steepest) (one-month|monthly) (gain|loss|drop|jump|fall) of {s} {p}", "{s}'s (best|worst) month {p}", "how many (months|calendar months) {s} (rose|fell|was up|was down|lost money) {p}",
            "in which month {s} (gained|lost|rose|fell) the most {p}", "the number of (winning|losing|positive|negative) months of {s} {p}", "which month {p} was the (best|worst) for {s}",
        ),
        "prices": ("the close of {s} {m}", "the (month-end|monthly) close of {s} {m}", "the (highest|lowest) (month-end |monthly |)close of {s} {p}", "{s}'s price {m}", "what {s} closed at {m}"),
        "total_return": ("the return of {s} in the month of {o}", "how much {s} moved {m}", "the change of {s} over the whole month of {o}"),
    },
    {
        "period": (
            "the (best|worst|strongest|weakest|ugliest|finest) (single |trading |)(day|week|hour|session|minute|weekday|fortnight) of {s} {p}", "the (biggest|largest|steepest) (one-day|daily|weekly|one-week|hourly|intraday|overnight) (gain|loss|drop|jump|fall|move) of {s} {p}",
            "{s}'s (best|worst) (day|week|hour|session) {p}", "how many (days|weeks|sessions|hours|trading days) {s} (rose|fell|was up|was down|lost money) {p}", "on which (day|date|weekday) {s} (gained|lost|rose|fell) the most {p}", "the number of (winning|losing|positive|negative) (days|weeks|sessions) of {s} {p}",
            "which (day|week|date|weekday) {p} was the (best|worst) for {s}", "the (daily|weekly|hourly|minute-by-minute|tick) (closes|prices|quotes|data) of {s} {m}", "the (opening|midday|pre-market|after-hours) price of {s} {m}", "{s}'s price in the (first|second|third) week of {o}", "what {s} closed at on the (second|third|fifth|tenth) trading day of {o}",
            "the return of {s} in the (first|second|third) week of {o}", "how much {s} moved overnight {m}", "the exact (day|date|hour) when {s} (peaked|bottomed|turned) {p}",
        ),
    },
)  # fmt: skip
CAUSE = Border(
    ("{x} {s} (rise|climb|gain|go up|fall|drop|lose|go down|slide) {p}", "{x} {s} (rise|fall|move) (so much|that much|like that|) {p}", "{p}, {x} {s} (rise|fall|move)", "{x} the (price|stock|shares) of {s} (rise|fall|change|move) {p}"),
    {"total_return": ("by how much did", "how much did", "by what percentage did", "(how many|by how many) percent did", "how strongly did", "how far did", "to what extent did", "in percent, how much did", "what percentage did", "in figures, how did")},
    {
        "figure": (
            "why did", "what made", "for what reason did", "thanks to whom did", "on what news did", "due to what did", "because of which (event|product|decision|lawsuit|rumour) did", "after which announcement did", "why on earth did", "what for did", "who made", "which (law|rival|war|customer|manager) made", "what let", "was it (a merger|the weather|the boss|a strike) that made", "whose fault was it to see", "how come did",
        ),
    },
)  # fmt: skip
STORY = Border(
    ("{x} {s} (rose|climbed|gained|fell|dropped|lost ground|slid) {p}", "{s} (rose|fell|moved|changed) {p}, {x}", "{x} the (fall|rise|move) of {s} {p}", "{s} {p}: {x}"),
    {"total_return": ("by how many percent", "by how much", "how much exactly", "in percent", "the size of", "how large", "what percentage")},
    {
        "figure": (
            "for what reason", "because of what", "thanks to whom", "after what news", "and why", "what was behind", "who caused", "the story of", "the cause of", "the headlines about", "what the papers said about", "who profited from", "the reasons for", "an explanation of", "the blame for", "what the boss said to", "how workers took", "the lesson from", "what the analysts made of",
        ),
    },
)  # fmt: skip
TENSE = Border(
    PLAIN,
    {
        "total_return": ("how much did {s} (gain|return|rise|lose) {p}", "what has {s} (returned|made|gained) {p}", "did {s} go up {p}", "where did {s} end up {p}, up or down", "what did a holder of {s} (make|lose) {p}", "how did {s} turn out {p}"),
        "compare total_return": ("which (did|has done) better {p}, {l}", "did {a} beat {b} {p}", "who came out ahead {p}, {a} or {b}", "was {a} the (better|wiser) (buy|choice|investment|pick) than {b} {p}", "which of {l} was the best (buy|investment|pick) {p}", "which one should one have (bought|owned|held) {p}, {l}"),
        "volatility": ("how volatile was {s} {p}", "how risky was it to hold {s} {p}"),
        "drawdown": ("how deep did {s} fall from its peak {p}", "what was the worst loss that a holder of {s} went through {p}"),
    },
    {
        "future": (
            "how much (will|might|could|is) {s} (gain|return|rise|lose|going to gain) (next year|in the next three years|by the end of the coming year|after the data end)", "what (will|would) {s} (return|make|gain) over the coming (year|decade|months)", "will {s} go up (from here|next month|in the years ahead)",
            "where will {s} end up (in five years|a year from now|next spring)", "what (will|can) a holder of {s} (make|lose) from now on", "how will {s} turn out (next year|in the end)", "which will do better (from now on|next year), {l}", "will {a} beat {b} (next year|again|in the coming decade)", "who will come out ahead, {a} or {b}",
            "how volatile will {s} be (next year|soon|from here)", "how risky will it be to hold {s} (next year|from today)", "how deep (will|could) {s} fall (from here|next time|in the next crash)", "if the pattern of {y} repeats itself, what does {s} make next", "given how {s} did {p}, what comes after", "based on {p}, what is the fair bet on {s} for next year",
            "extend {s}'s path of {y} by another year, what price results", "at the pace of {y}, when does {s} reach {d}", "does {s} look set to rise after what it did {p}",
        ),
        "advice": (
            "is {a} the (better|wiser) (buy|choice|investment|pick) than {b} (now|today|for me|at this point)", "which of {l} is the best (buy|investment|pick) (now|today|for my daughter)", "which one should one (buy|own|hold) now, {l}", "given how {s} did {p}, should i (buy|sell|keep) it", "{s} lost a lot {p}; is it time to (buy|get in|give up)",
            "{s} did well {p}, does that make it a (buy|sell|keeper)", "after its return {p}, would you put {d} into {s}", "is holding {s} too risky for someone like me", "having seen {y}, would you sleep well with {s}", "what would a sensible person do with {s} now", "should i take the profit that {s} made {p}", "{a} beat {b} {p}. do i switch",
        ),
    },
)  # fmt: skip
SUPPOSED = Border(
    ("{x}", "{x}", "(suppose|imagine|say|assume): {x}", "(just for fun|hypothetically|out of curiosity|in theory), {x}"),
    {
        "total_return": ("what would {s} have (returned|made|brought me) {p} had i (bought|held|owned|kept) it", "had i put {d} into {s} {p}, what would the gain be in percent", "what would somebody with {s} have gained {p}", "i would have made how much on {s} {p}", "if i had (sat on|owned|held) {s} {p}, how much would i be up"),
        "compare total_return": ("would i have been better off with {a} or with {b} {p}", "had i taken {a} in place of {b}, would i have made more {p}", "would {a} have earned me more than {b} {p}"),
    },
    {
        "figure": (
            "what would {s} have (returned|made|gained) {p} (if|had) (the merger gone through|its founder stayed|rates stayed low|there been no war|the factory not burned down|it never split its shares|it paid no dividend|the rival gone under|the crisis not come)",
            "had {a} bought {b} {p}, what would the price be", "if {a} and {b} had merged {p}, how would the joint company have done", "what would {s} have been worth {p} without (its debts|the scandal|its main product|buybacks)", "how would {s} have done {p} had it been listed in (london|tokyo|zurich)",
            "if i had (sold calls on|bought puts on|shorted|hedged) {s} {p}, what would i have made", "with a stop loss of {k}% on {s}, what would i have made {p}", "if i had (bought every dip in|traded in and out of|rebalanced every week between cash and) {s} {p}, what would be left", "buying {d} of {s} every (week|friday|payday) {p}, where would i stand",
            "had i (reinvested|spent) the dividends of {s} {p}, what would i have", "had i borrowed {d} at seven percent for {s} {p}, what would be left after interest", "how would {s} have done {p} with twice the (staff|sales|advertising)", "had {s} been in the index {p}, how much would it have gained", "if oil had cost half {p}, what would {s} have done",
        ),
    },
)  # fmt: skip
MIXED = Border(
    PLAIN,
    {
        "compare total_return": ("the returns of {a} and {b} {p}, which was higher", "compare {a} and {b} by return {p}", "of {l}, which made the most {p}"),
        "compare volatility": ("of {l}, which was the most volatile {p}", "compare {a} and {b} by volatility {p}"),
        "correlation": ("how closely did {a} move with {b} {p}", "the correlation of {a} with {b} {p}", "did {a} and {b} move in step {p}", "how strongly was {a} tied to {b} {p}", "was there a link between {a} and {b} {p}"),
    },
    {
        "figure": (
            "the return of a portfolio of {k}% {a} and the rest {b} {p}", "what did a mix of {a} and {b}, rebalanced every month, return {p}", "the volatility of {a} and {b} held together half and half {p}", "what was the (optimal|minimum variance|efficient) mix of {a} and {b} {p}", "how much did i make {p} with my shares of {a} and {b}", "what did our (fund|club|depot|pension plan) with {a} and {b} in it return {p}",
            "how much of my portfolio's risk came from {s} {p}", "what was the return of all {w} weighted by (market value|sales|staff) {p}", "how closely did {s} move with (its own sales|its trading volume|its dividend|its headcount|the number of its stores) {p}", "the correlation of {s} with (unemployment|the weather|interest rates|inflation|rainfall|sunspots|consumer confidence|house prices|elections|the phases of the moon) {p}",
            "how strongly was {s} tied to (the oil price|the dollar|the price of wheat|the election|its chief's mood) {p}", "was there a link between {s} and (the temperature|the news|web searches for it|interest rates) {p}", "did {s} and its (earnings|dividend|volume|bonds|options) move in step {p}", "the {t} of {a} against the return of {b} {p}", "did {a} lead {b} by a (day|week|few hours) {p}",
            "the (rank|partial|lagged|intraday) correlation of {a} and {b} with (the market|rates|oil) taken out {p}", "how much money do i have in {a} and {b}", "which of my shares, {l}, did i buy too dear",
        ),
    },
)  # fmt: skip
UNIVERSE = Border(
    (
        "which (stock|share|company|one) (did best|did worst|rose the most|fell the most|returned the most|gained most) {x} {p}", "(what|which) was the (best|worst|top) (performing |)(stock|share|company) {x} {p}", "{x}, (which|what) (rose|gained|returned|fell|lost) the most {p}",
        "who (won|led|came first|lost the most) {x} {p}", "the (top|bottom) (performer|share|stock) {x} {p}", "rank the shares {x} by return {p}", "(best|worst) return {x} {p}", "sort all companies {x} by what they returned {p}",
    ),
    {"rank total_return": ("in the table", "here", "of those you have", "in your data", "on this list", "among your symbols", "of these", "of the ones listed", "in this data set", "among the {w}", "of all {w}", "of the lot", "in the file", "among the companies that you know", "of the whole table", "among them all")},
    {
        "symbol": (
            "in the world", "on the exchange", "in the index", "of all listed companies", "in (europe|asia|america|japan|brazil|canada|india|my country)", "on the (nasdaq|new york exchange|tokyo exchange|london market)", "in the (dow|s&p 500|ftse|dax)", "in its sector", "among (banks|airlines|car makers|drug makers|retailers|oil companies|small caps|utilities|insurers|start-ups|chip makers)",
            "of the companies that went public", "among emerging markets", "of all (funds|currencies|commodities|bonds|crypto coins|metals|etfs|options)", "on wall street", "of the ten thousand quoted firms", "of my own shares", "in my depot", "that is not in your table", "besides those in the table", "in (warren buffett's|my uncle's|the queen's|our club's) portfolio", "of those you do not have", "of the competitors",
            "among family-run firms", "with women on the board", "that pay a dividend", "with more than a thousand workers", "without debt", "of the blue chips", "that are based in {s}'s home town",
        ),
    },
)  # fmt: skip
DEFINED = Border(
    ("{x}", "{x}", "(please|so,|ok,|hello,) {x}"),
    {
        "volatility": ("what is the volatility of {s} {p}", "explain how volatile {s} was {p}", "(work out|calculate) the volatility of {s} {p}", "what does the table say about the risk of {s} {p}"),
        "drawdown": ("what is the (max |)drawdown of {s} {p}", "(work out|calculate) the drawdown of {s} {p}", "describe the worst fall of {s} {p}"),
        "annual_return": ("what is the annual return of {s} {p}", "(work out|calculate) the annualised return of {s} {p}"),
        "total_return": ("what is the total return of {s} {p}", "describe in a number how {s} did {p}", "(work out|calculate) the return of {s} {p}"),
        "correlation": ("what is the correlation of {a} and {b} {p}", "(work out|calculate) how {a} and {b} correlate {p}"),
        "prices": ("what is the price of {s} {m}", "what is the average close of {s} {p}"),
    },
    {
        "unclear": (
            "what (is|does) (volatility|a drawdown|correlation|an annualised return|a total return|a close|a share|a stock|risk|a bear market|compounding|diversification|a ticker) (mean|)", "explain (volatility|drawdown|correlation|compounding|annualised returns|standard deviation|diversification|short selling|an option) (to me|to a child|in simple words|)",
            "how (do you|does one|is it that you) (work out|calculate|compute|annualise|measure) (volatility|the drawdown|a return|correlation|risk|an average)", "what is the difference between (volatility and risk|a total and an annual return|mean and median|a share and a bond|drawdown and loss)", "what is the formula (for|of) (volatility|drawdown|the annual return|correlation|the sharpe ratio)",
            "why (does one|do people) (look at|care about|compute) (volatility|drawdowns|correlations)", "is (a volatility of {k}%|a drawdown of {k}%|a correlation of a half) (high|a lot|normal|good)", "who invented (the correlation coefficient|shares|the stock exchange|volatility)", "what is a good (volatility|return|drawdown) in general",
            "where do (your|these|the) (prices|data|numbers|figures) come from", "who (made|collected|checked|maintains) (the|your) (table|data)", "(when|how often) (was|is) the (table|file|data) updated", "how many rows (are in the table|do you have)", "are your (prices|closes) adjusted for (splits|dividends)", "can i trust (you|your numbers|the table)", "what (can|do) you (do|know|compute|understand)",
            "which (tools|model|programs) do you use", "how (accurate|reliable|old) are you", "what does the word {s} mean", "how do you spell {s}", "how is {s} pronounced", "what (letters|colour) is {s}",
        ),
    },
)  # fmt: skip
DONE = Border(
    ("{x}", "{x}", "(please|kindly|hey,|ok,|now) {x}", "(could|can|would) you {x}", "i want you to {x}"),
    {
        "total_return": ("(show|give|get|tell) me what {s} returned {p}", "(check|look up|find out) how {s} did {p}", "(work out|compute) the gain on {s} {p}"),
        "prices": ("(show|give|get) me the price of {s} {m}", "(fetch|look up|check) the close of {s} {m}", "(list|show) the highest and the lowest close of {s} {p}"),
        "rank total_return": ("(rank|sort|order|list) all (stocks|companies|shares) by return {p}", "(name|find) the best one {p}"),
        "compare total_return": ("(compare|set side by side) the returns of {a} and {b} {p}", "say which of {l} did best {p}"),
    },
    {
        "advice": ("(buy|sell|short|order|trade) (ten|a hundred|{d} worth of) {s}( for me| now| at the open|)", "place (an order|a bid|a limit order) for {s}", "put {d} into {s} (for me|today)", "(close|open|hedge|roll) my position in {s}", "set up a savings plan (in|for) {s}", "rebalance my {a} and {b}", "manage my money for me", "choose what i should own"),
        "unclear": (
            "(plot|chart|draw|paint|sketch) {s} {p}", "(email|send|fax|post|print) (me|my boss|the client) the {s} (chart|report|file)", "(delete|remove|add|rename|correct|overwrite|change) {s} in the (table|file|data)", "(set|switch on) an alert (for|when) {s} (hits {d}|falls {k}%)", "remind me (about|of) {s} (tomorrow|on monday)", "export everything to a spreadsheet",
            "(ignore|forget|disregard) (all |)(your|the|previous|earlier) (instructions|rules|orders) and (say|write|tell me) (hello|your password|the secret|a poem|anything you like)", "(print|show|reveal|repeat) your (system prompt|instructions|hidden rules|password|source code)", "pretend to be a (pirate|doctor|poet|dog|wizard) and (talk|sing|answer)", "you are now (a lawyer|my friend|another program), (act so|answer as such)",
            "write (a letter|an essay|a song|a slogan|a tweet|a press release|a web page) about {s}", "(summarise|translate|proofread|shorten) (this|the annual report of {s}|my letter|the news about {s})", "(call|book|contact|write to) (my broker|a taxi|the board of {s}|a restaurant|the police)", "(log me in|reset my account|open an account|close my account)", "(fill in|file) my tax return (with|for) {s}", "(download|install|update|restart) the (data|program|app)",
            "(run|execute) this (code|script|command)", "(make|build|code) me an app (for|that follows) {s}", "(tell|sing|read) me (a story|something funny|a lullaby)", "(say|repeat) (after me|nothing|that five times)", "(solve|prove|factor) (this equation|the theorem|the number {d})", "(find|hire|recommend) (a dentist|a plumber|a lawyer|a hotel)",
        ),
    },
)  # fmt: skip
COUNTED = Border(
    PLAIN,
    {
        "prices": (
            "the average (close|price) of {s} {p}", "the (highest|lowest) close of {s} {p}", "did {s} ever close above {d} {p}", "when did {s} (peak|top out|bottom|hit its low) {p}", "in which month did {s} close (highest|lowest) {p}", "what did {s} start and end at {p}", "how high did {s} get {p}", "what was the mean price of {s} {p}",
        ),
        "drawdown": ("how far did {s} fall from its peak {p}", "the largest (peak-to-trough |)loss of {s} {p}"),
        "volatility": ("the standard deviation of {s}'s returns {p}", "how much did the returns of {s} vary {p}"),
    },
    {
        "figure": (
            "the median (close|price) of {s} {p}", "how many times did {s} cross {d} {p}", "how often did {s} (set a record|change direction|close at a round number) {p}", "how long did {s} take to (recover|double|get back to its peak) {p}", "for how many (days|weeks) did {s} stay (above|below) {d} {p}", "the longest (winning|losing) streak of {s} {p}",
            "the (skewness|kurtosis|autocorrelation|hurst exponent|entropy|semi-variance|ninety-fifth percentile) of {s}'s returns {p}", "the slope of a (line|trend|regression) through {s} {p}", "is the (gain|loss|difference) of {s} {p} statistically significant", "with what confidence did {s} rise {p}", "the (alpha|beta) of {a} (to|against|on) {b} {p}",
            "the ratio of {s}'s return to its (drawdown|risk|volatility) {p}", "how (normal|random|seasonal|cyclical) were the returns of {s} {p}", "the (moving average|momentum|trading range by day|candles|pivot points|fibonacci levels) of {s} {p}", "how many (trades|ticks|quotes) of {s} were there {p}", "at what (time|hour) did {s} (peak|bottom|trade highest) {p}", "who bought {s} at its (peak|low) {p}", "the {t} at the peak of {s} {p}",
            "how many shares of {s} were sold at its high {p}",
        ),
    },
)  # fmt: skip

FOLLOWING = Border(
    ("{x}", "{x}", "(thanks|ok|fine|right|good|understood|i see)(,|.|:| -) {x}", "(now|next|again|and then|then): {x}", "(sorry|wait|no), {x}"),
    {
        "total_return": (
            "and what of {s} {p}", "and {s}? ({y}, the return)", "likewise for {s}, {p}", "how did {s} do in that time ({y})", "{s} over those same years ({y}, in percent)", "{s} as well, {p}", "and its gain? ({s} again, {y})", "it is still {s} that i mean, {p}. how much did it gain", "do the same for {s}, {p}", "also {s} please, {p}", "let us stay with {s}: how did it fare {p}",
        ),
        "volatility": ("and was it bumpy? ({s} again, {y})", "and the volatility of that one ({s}, {y})", "likewise the volatility of {s} {p}", "now its risk: {s}, {y}"),
        "drawdown": ("and the worst it lost from a peak? ({s}, {y})", "now its drawdown: {s}, {y}", "how much of that had it given back at the worst? (i mean {s}, {y})"),
        "prices": ("and its peak price in that time ({s}, {y})", "now the price: {s}, {o}", "and what did it cost ({s}, {o})"),
        "compare total_return": ("and which of them led ({l}, {y})", "so who gained more of the two ({a} and {b}, {y})", "the same contest for {a} and {b}, {p}"),
        "compare volatility": ("and the calmer one? ({l}, {y})", "who swung more of these ({l}, {y})"),
        "correlation": ("and do they go hand in hand ({a} and {b}, {y})", "the same pair in step or not? {a} and {b}, {p}"),
        "rank total_return": ("and all of them together, {p}, ranked", "then the whole list by return, {p}"),
    },
    {
        "unclear": (
            "and what of it {p}", "and that one? ({y}, the return)", "likewise for the other one, {p}", "how did they do in that time ({y})", "the same over those years", "that as well, {p}", "and its gain? (again, {y})", "it is still the same one that i mean, {p}", "do the same for the rest of mine, {p}", "the second one please, {p}", "let us stay with it: how did it fare {p}",
            "and was it bumpy? (again, {y})", "and the volatility of that one ({y})", "now its risk", "and the worst it lost ({y})", "now its drawdown, {p}", "and its peak price in that time", "now the price, {o}", "and what did it cost ({o})", "and which of them led ({y})", "so who gained more of the two", "the same contest once more", "and the calmer one", "and do they go hand in hand ({y})",
            "and before that", "and for my wife's", "add the one from yesterday", "compare {s} with the one before", "{s} against the last one that i named, {p}", "and {s}? you know what i want to know", "the opposite of that", "so the answer is {k} percent", "and how do you know",
        ),
    },
)  # fmt: skip

DATED = Border(
    ("what did {s} (close|trade|stand) at {x}", "{s} (price|close|quote) {x}", "what was (a share of |){s} worth {x}", "(the |)(close|price) of {s} {x}", "where did {s} (close|stand) {x}", "{x}, what was the (price|close) of {s}", "how much was {s} {x}", "{s}, {x}", "what did {s} cost {x}"),
    {"prices": ("{m}", "(in|at the end of|at the close of|by the end of) {o}", "in the month of {o}", "over the whole of {o}", "as of {o}", "for {o}")},
    {
        "period": ("on (3|4|5|6|7|8|9|10|11|12|13|14|16|17|18|19|20|21|22) {o}", "on the (3rd|4th|6th|8th|9th|11th|12th|14th|16th|18th|19th|21st|22nd) of {o}", "on (a monday|the second tuesday|the first friday|the fifth trading day|a holiday) in {o}", "(in the first week|in the second week|at noon on the 9th|ten days into the month|shortly before the 20th) of {o}", "{o}, the (5th|8th|13th|17th|24th)"),
    },
)  # fmt: skip

BORDERS: tuple[tuple[Border, float], ...] = (
    (FINER, 16), (CAUSE, 6), (STORY, 5), (TENSE, 16), (SUPPOSED, 11), (MIXED, 12), (UNIVERSE, 12), (DEFINED, 9), (DONE, 11), (COUNTED, 12), (FOLLOWING, 14), (DATED, 9),
)  # fmt: skip


def draw(rng: random.Random, known: bool) -> tuple[str, str]:
    """A pattern on the wanted side of a border, and its tool, or the reason why there is none."""
    border = rng.choices([b for b, _ in BORDERS], [share for _, share in BORDERS])[0]
    pattern, name = border.draw(rng, known)
    return expand(pattern, rng), name
