"""Transcripts of `programs/vote.py` and `programs/tree.py`: two-digit sums and differences, digit by digit."""

import random
from dataclasses import dataclass

from corpus.example import Example, Message, assistant, compact, system, user
from corpus.wording import as_typed, expand

SYSTEM = "Solve step by step."
SUMS = (
    "(what is|what's|compute|calculate|work out|find|how much is|tell me|solve|evaluate) {a} + {b}",
    "{a} + {b} = ", "{a} + {b}", "(what is|how much is|compute|calculate) {a} plus {b}", "add {a} (and|to) {b}",
    "(what is|find) the sum of {a} and {b}", "I have {a} (apples|coins|books|pens|cards) and (get|buy|find) {b} more. How many (do I have|are there)",
    "{a} (people|birds|cars|eggs) and {b} (people|birds|cars|eggs): how many in all", "what do {a} and {b} (make|add up to|sum to)",
    "what is {b} more than {a}", "(what is|how much is) {a}+{b}", "what (total|sum) do {a} and {b} give",
)  # fmt: skip
DIFFERENCES = (
    "(what is|what's|compute|calculate|work out|find|how much is|tell me|solve|evaluate) {a} - {b}",
    "{a} - {b} = ", "{a} - {b}", "(what is|how much is|compute|calculate) {a} minus {b}", "subtract {b} from {a}",
    "(what is|find) the difference (of|between) {a} and {b}", "take {b} (away from|from) {a}", "what is {b} less than {a}",
    "I have {a} (apples|coins|books|pens|cards) and (give away|lose|sell) {b}. How many (are left|remain|do I keep)",
    "how many are left of {a} (people|birds|cars|eggs) when {b} leave", "(what is|how much is) {a}-{b}",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Problem:
    """A two-digit problem with its working, the ones before the tens."""

    question: str
    steps: tuple[str, str]
    answer: int


def problem(rng: random.Random) -> Problem:
    """A random sum or difference."""
    a, b = rng.randint(10, 99), rng.randint(10, 99)
    words: tuple[str, ...]
    if rng.random() < 0.5:
        steps, answer, words = add(a, b), a + b, SUMS
    else:
        a, b = max(a, b), min(a, b)
        steps, answer, words = subtract(a, b), a - b, DIFFERENCES
    question = as_typed(
        expand(rng.choice(words), rng).replace("{a}", str(a)).replace("{b}", str(b)), rng
    )
    return Problem(question, steps, answer)


def add(a: int, b: int) -> tuple[str, str]:
    """The two column steps of `a + b`."""
    ones = a % 10 + b % 10
    carry = f"+{ones // 10}" if ones > 9 else ""
    return (
        f"{a % 10}+{b % 10}={ones}",
        f"{a // 10}+{b // 10}{carry}={a // 10 + b // 10 + ones // 10}",
    )


def subtract(a: int, b: int) -> tuple[str, str]:
    """The two column steps of `a - b`, for `a >= b`."""
    borrow = a % 10 < b % 10
    top = a % 10 + 10 * borrow
    return (
        f"{top}-{b % 10}={top - b % 10}",
        f"{a // 10}-{b // 10}{'-1' * borrow}={a // 10 - b // 10 - borrow}",
    )


def wrong(step: str, rng: random.Random) -> str:
    """The step with a wrong result."""
    left, right = step.split("=")
    return (
        f"{left}={max(0, int(right) + rng.choice((-3, -2, -1, 1, 2, 3, 10)))}"
        if rng.random() < 0.8
        else f"{rng.randint(1, 9)}{rng.choice('+-')}{rng.randint(1, 9)}={right}"
    )


def vote(rng: random.Random) -> Example:
    """One sampled solution."""
    p = problem(rng)
    solution = compact({"reasoning": ", ".join(p.steps), "answer": p.answer})
    return Example("vote", (system(SYSTEM), user(p.question), assistant(solution)), (True,))


def tree(rng: random.Random) -> Example:
    """A chain of thoughts, right or wrong, then its mark or the answer."""
    p = problem(rng)
    messages: list[Message] = [system(SYSTEM), user(p.question)]
    learn: list[bool] = []
    depth = rng.choice((1, 2, 2))
    right = True
    for step in p.steps[:depth]:
        slip = right and rng.random() < 0.25
        thought = wrong(step, rng) if slip else step
        right = right and thought == step
        messages += [user("Next step?"), assistant(thought)]
        learn.append(not slip)
    if depth == 2 and right and rng.random() < 0.6:
        messages += [user("Answer."), assistant(str(p.answer))]
    else:
        messages += [user("Promise, 0 to 10?"), assistant("9" if right else "1")]
    return Example("tree", tuple(messages), (*learn, True))
