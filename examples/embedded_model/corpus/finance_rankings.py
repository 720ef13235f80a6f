"""How people ask for a ranking of the whole table, and for two periods of one symbol.

`{p}` and `{q}` are periods, `{s}` is a symbol, `{noun}` a figure.
"""

WHO = "(stock|share|symbol|company|one|of them|of these|of all|ticker|name|stock in the table|of the stocks|of the companies|of these companies|)"
EVERYTHING = "(all|all symbols|them all|the stocks|all stocks|all the stocks|everything|the whole table|all companies|the companies|every symbol|all of them|the symbols|every stock|all the names|these stocks)"
OF_ALL = "(|||| of all| of them all| in the table| in the data| among all| overall| of the lot| of the group| here)"

RANKINGS: dict[str, tuple[str, ...]] = {
    "total_return": (
        f"which {WHO} (returned|gained|made|rose|grew|earned|went up|did|climbed|performed|appreciated) (the most|most|best|the best|the least|least|worst|the worst) {{p}}",
        f"(what|which|who) was the (best|worst|top|strongest|weakest|second best|poorest) (performer|performing stock|stock|investment|performing symbol|performing company|one to own|one to hold|buy){OF_ALL} {{p}}",
        f"rank {EVERYTHING} (by|by|on|according to) (return|total return|performance|gain|gains|profit|percentage gain) {{p}}",
        f"(rank|order|sort|line up) {EVERYTHING} from (best to worst|worst to best|highest to lowest return) {{p}}",
        "(who|which|which one) (won|lost the most|came last|came first|was the winner|was the loser|gained most|lost most|fell the most|suffered the biggest loss|came out on top|was at the bottom) {p}",
        "(best|worst|top|strongest|weakest) (performer|stock|investment|return|performing stock) {p}",
        f"compare (the returns of |the total returns of |the performance of |){EVERYTHING} {{p}}",
        f"(give me|show|list|show me|i want|make) (a ranking|the ranking|a league table|a list) (of|for) {EVERYTHING} {{p}}",
        "(where|in which|in what) (stock|share|company|symbol) would my money have (grown|done|gained) (most|best|the most|least) {p}",
        "(what|which) (stock|share|company|symbol) should i have (bought|owned|held|picked) {p}",
        "if i could have (bought|owned|held) (only |just |)one (stock|share|company) {p}, which (would have|would've|had) (paid|made|returned|gained) the most",
        f"(name|find|pick|show) the (best|worst|biggest|top) (performer|gainer|loser|winner|stock){OF_ALL} {{p}}",
        "did (all|any|every one) of (them|the stocks|these) (gain|rise|lose money|fall|go up|make money) {p}",
    ),
    "annual_return": (
        f"which {WHO} (returned|gained|grew|made|earned) (the most|most|the least) (per year|a year|annually|each year|on average per year) {{p}}",
        f"which {WHO} had the (highest|best|lowest|worst|top) (annual return|annualised return|CAGR|yearly return|average annual return|compound annual growth|return per year) {{p}}",
        f"rank {EVERYTHING} by (annual return|annualised return|CAGR|yearly return|return per year|compound growth) {{p}}",
        f"which {WHO} (grew|compounded) (fastest|the fastest|slowest|the slowest) (per year|annually|a year) {{p}}",
        "(highest|best|lowest|worst) (annual return|annualised return|CAGR|yearly return) {p}",
        f"compare (the annual returns|the CAGRs|the yearly returns|annualised returns) of {EVERYTHING} {{p}}",
    ),
    "volatility": (
        f"which {WHO} (was|is) (the most|most|the least|least) (volatile|risky|stable|jumpy|steady|erratic) {{p}}",
        f"which {WHO} was the (riskiest|safest|calmest|wildest|steadiest|bumpiest|smoothest) {{p}}",
        f"which {WHO} had the (highest|lowest|largest|smallest|biggest) (volatility|risk|standard deviation|price swings|swings) {{p}}",
        f"rank {EVERYTHING} by (volatility|risk|riskiness|standard deviation) {{p}}",
        f"(which|what|who) (fluctuated|swung|varied|moved around) (the most|most|the least|least){OF_ALL} {{p}}",
        f"(riskiest|safest|most volatile|least volatile|calmest|steadiest) (stock|share|symbol|company|one|investment){OF_ALL} {{p}}",
        f"(order|sort|line up) {EVERYTHING} from (calmest to wildest|safest to riskiest|most to least volatile|least to most volatile) {{p}}",
        f"compare the (volatility|risk|volatilities) of {EVERYTHING} {{p}}",
    ),
    "drawdown": (
        f"which {WHO} had the (deepest|worst|largest|biggest|smallest|mildest|shallowest|greatest) (drawdown|fall from a peak|peak-to-trough loss|drop from its high|slump|decline from a high) {{p}}",
        f"which {WHO} (fell|dropped|declined|slid|crashed) (the most|most|furthest|the furthest|least|the least|deepest) from (its|a) (peak|high|top) {{p}}",
        f"rank {EVERYTHING} by (drawdown|max drawdown|maximum drawdown|worst drawdown|worst fall|peak-to-trough loss) {{p}}",
        f"which {WHO} lost (the most|most|the least) (from peak to trough|peak to trough|from top to bottom|from its high) {{p}}",
        f"(deepest|worst|biggest|smallest) (drawdown|slump|fall from a peak){OF_ALL} {{p}}",
        f"compare the (drawdowns|worst drawdowns|maximum drawdowns) of {EVERYTHING} {{p}}",
    ),
}  # fmt: skip
ANY_FIGURE = (
    f"which {WHO} had the (highest|lowest|largest|smallest|biggest|best|worst) {{noun}} {{p}}",
    f"(rank|order|sort) {EVERYTHING} by {{noun}} {{p}}",
    f"{EVERYTHING} ranked by {{noun}} {{p}}",
    f"(ranking|league table|order) of {EVERYTHING} by {{noun}} {{p}}",
    "{noun} ranking {p}",
    f"whose {{noun}} was the (highest|lowest|largest|smallest|biggest|best|worst){OF_ALL} {{p}}",
    "(highest|lowest|largest|smallest|biggest) {noun} {p}: which (stock|symbol|company|one)",
)

TWO_PERIODS: dict[str, tuple[str, ...]] = {
    "total_return": (
        "did {s} (do|perform|fare|return) (better|worse|more) {p} or {q}", "when did {s} (return|gain|make|do|perform|rise) (more|better), {p} or {q}",
        "was {s} (better|stronger|weaker|more profitable) {p} (or|than) {q}", "compare {s}'s (return|gain|performance|total return) {p} (with|to|and) (that |) {q}",
        "did {s} (gain|return|make|earn|rise) more {p} than {q}", "how much did {s} (return|gain|make|rise) {p}, and how much {q}",
    ),
    "annual_return": (
        "did {s} (return|gain|grow) (more|faster) (per year|a year|annually) {p} (or|than) {q}", "compare the (annual return|CAGR|yearly return|annualised return) of {s} {p} (with|to|and) {q}",
        "when was the (annual return|CAGR|yearly growth) of {s} (higher|better), {p} or {q}",
    ),
    "volatility": (
        "was {s} (more volatile|riskier|calmer|jumpier|wilder|less volatile|more stable) {p} (or|than) {q}", "when was {s} (more volatile|riskier|calmer|safer), {p} or {q}",
        "did {s} (swing|fluctuate|vary) more {p} (or|than) {q}", "compare the (volatility|risk) of {s} {p} (with|to|and) {q}",
    ),
    "drawdown": (
        "was the (drawdown|slump|fall from the peak) of {s} (deeper|worse|smaller|larger) {p} (or|than) {q}", "when did {s} fall (further|more) from (its|a) (peak|high), {p} or {q}",
        "compare the (max drawdown|drawdown|worst fall) of {s} {p} (with|to|and) {q}",
    ),
    "prices": ("what (was|were) the (price|prices|closing price|highest price) of {s} {p} and {q}", "what did {s} (cost|close at|trade at) {p}, and what {q}", "compare the (price|prices) of {s} {p} (with|to|and) {q}"),
}  # fmt: skip
ANY_TWICE = (
    "{noun} of {s} {p} (and|versus|vs|compared with|against|as opposed to|or) {q}",
    "{s}'s {noun} {p} (and|versus|vs|compared with|against|or) {q}",
    "when was the {noun} of {s} (higher|larger|lower|better), {p} or {q}",
    "how did the {noun} of {s} change (between the two times|): {p} and {q}",
)
