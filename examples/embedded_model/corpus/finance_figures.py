"""Names of figures that no tool computes, made of parts, so that no list of them can be learned."""

import random

from corpus import names

FIGURES = (
    "dividend", "dividends", "dividend yield", "dividend per share", "payout ratio", "P/E", "P/E ratio", "price-earnings ratio", "price to book ratio", "PEG ratio",
    "earnings", "earnings per share", "EPS", "net income", "net profit margin", "gross margin", "operating margin", "operating income", "revenue", "revenues", "sales",
    "turnover", "quarterly sales", "sales growth", "trading volume", "volume", "average daily volume", "traded volume", "market cap", "market capitalisation",
    "market value of the whole company", "enterprise value", "book value", "shares outstanding", "number of shares", "float", "short interest", "free cash flow",
    "cash flow", "cash on the balance sheet", "debt", "debt ratio", "leverage", "balance sheet", "interest cover", "credit rating", "bond yield", "tax rate", "tax bill",
    "beta", "alpha", "Sharpe ratio", "Sortino ratio", "information ratio", "Treynor ratio", "value at risk", "tracking error", "skewness", "kurtosis", "R squared",
    "moving average", "200-day average", "50-day moving average", "RSI", "MACD", "Bollinger bands", "momentum score", "support level", "resistance level",
    "median price", "median return", "best day", "worst day", "longest winning streak",
    "opening price", "intraday high", "intraday low", "bid", "ask price", "bid-ask spread", "spread", "after-hours price", "pre-market price", "option price",
    "implied volatility", "put-call ratio", "option volume", "futures price", "number of employees", "headcount", "staff", "customer count", "market share", "number of stores",
    "number of users", "headquarters", "address", "founder", "chief executive", "CEO", "board", "main product", "products", "competitors", "industry", "sector",
    "analyst rating", "analyst consensus", "price target", "target price", "rating", "recommendation", "news", "press releases", "guidance", "annual report",
    "stock split", "split ratio", "splits", "buyback", "share buybacks", "insider trades", "ownership", "largest shareholder", "ESG score", "carbon emissions", "salary of the boss",
    "research spending", "R&D budget", "capital expenditure", "EBITDA", "EBIT", "return on equity", "return on assets", "ROE", "inventory", "order book", "pension costs",
    "fund flows", "index weight", "fair value", "intrinsic value", "listing date", "IPO price", "ISIN", "currency", "exchange", "exchange rate", "inflation-adjusted return",
    "real return after inflation", "after-tax return", "return in euros", "trading costs", "fees", "commission", "liquidity", "time to recover", "number of trades", "patents", "lawsuits", "logo",
    "excess return over the index", "return above the risk-free rate", "gain in pounds after fees", "goodwill", "working capital", "advertising budget", "profit warning", "half-life", "risk premium",
)  # fmt: skip
KEPT = ("", "", "", "", "quarterly", "annual", "yearly", "half-year", "reported", "adjusted", "consolidated", "pro forma", "domestic", "overseas", "pre-tax", "after-tax", "underlying", "audited", "total", "average", "expected", "trailing", "diluted", "net", "gross", "organic")  # fmt: skip
BOOKED = (
    "earnings", "company profit", "business profits", "operating profit", "operating result", "net result", "income", "revenue", "revenues", "sales", "turnover", "cash flow", "free cash flow", "EBITDA", "EBIT", "debt", "borrowings", "liabilities", "assets", "equity", "book value", "cash", "cash reserves",
    "dividend", "distribution", "payout", "research spending", "wage bill", "payroll", "tax bill", "advertising spend", "capital spending", "interest bill", "order intake", "order backlog", "inventory", "exports", "licence income", "subscription income", "legal costs", "pension deficit", "provisions",
    "rent", "depreciation", "amortisation", "write-downs", "market capitalisation", "company value", "enterprise value", "shipments", "output", "production", "orders", "bookings", "deliveries", "royalties", "deposits", "loans", "premiums",
)  # fmt: skip
RELATED = ("", "", "", "", "per share", "per employee", "per customer", "growth", "margin", "ratio", "multiple", "yield", "cover", "surprise", "target", "guidance", "estimate", "in millions", "as a share of sales", "to equity", "trend", "by region", "by segment")  # fmt: skip
PER_SHARE = ("price to {}", "price/{}", "P/{l}", "{}-to-price", "price over {}", "multiple of {}", "EV to {}", "return on {}", "yield on {}", "{} multiple")  # fmt: skip
COUNTED = ("number of {}", "number of {}", "count of {}", "quantity of {}", "share of {}", "percentage of {}", "list of {}", "total of {}", "amount of {}")  # fmt: skip
THINGS = (
    "shareholders", "bondholders", "employees", "engineers", "drivers", "managers", "board members", "customers", "subscribers", "visitors", "downloads", "accounts", "stores", "branches", "warehouses", "factories", "planes", "trucks", "wells", "patents", "licences", "contracts", "orders", "complaints", "recalls",
    "strikes", "accidents", "lawsuits", "fines", "brands", "products", "product launches", "countries served", "suppliers", "bonds", "warrants", "options", "voting rights", "treasury shares", "shares issued", "shares traded", "trades", "short sellers", "analysts", "buy ratings", "sell ratings", "upgrades", "downgrades",
    "headlines", "press mentions", "web searches", "posts online", "takeovers", "layoffs", "job openings", "tons shipped", "barrels", "cars sold", "tickets sold", "clicks", "users", "members",
)  # fmt: skip


def lacked(rng: random.Random) -> str:
    """The name of a figure that closing prices do not tell."""
    pick = rng.random()
    if pick < 0.4:
        return rng.choice(FIGURES)
    if pick < 0.7:
        parts = (rng.choice(KEPT), rng.choice(BOOKED), rng.choice(RELATED))
        return " ".join(part for part in parts if part)
    if pick < 0.82:
        base = rng.choice(BOOKED)
        return rng.choice(PER_SHARE).replace("{}", base).replace("{l}", base[0].upper())
    if pick < 0.96:
        return rng.choice(COUNTED).replace("{}", rng.choice(THINGS))  # fmt: skip
    return names.word(rng).lower()
