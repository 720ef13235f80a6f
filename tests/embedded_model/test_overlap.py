"""How much the held-out questions share with the training text, as 8-grams.

Counted on words in lower case, with symbols, numbers and months replaced by a placeholder each on
both sides, so that only wordings count. A question shorter than 8 words is one gram as a whole.
"""

import re

from corpus.mix import draw
from corpus.periods import MONTHS, SHORT
from held_out.questions import ORIGINS, every

TRAINING_TRANSCRIPTS = 3000
SIZE = 8
MONTH = {name.lower() for name in (*MONTHS, *SHORT, "Sept")} - {"may"}


def words(text: str) -> list[str]:
    """The words of a question with the particulars masked."""
    return [masked(word) for word in re.findall(r"[A-Za-z]+|\d+", text)]


def masked(word: str) -> str:
    """A word, or the placeholder of its kind."""
    if word.isdigit():
        return "<n>"
    if word.isupper() and len(word) > 1:
        return "<s>"
    return "<m>" if word.lower() in MONTH else word.lower()


def grams(text: str) -> set[tuple[str, ...]]:
    """The 8-grams of a question."""
    found = words(text)
    return {tuple(found[i : i + SIZE]) for i in range(max(1, len(found) - SIZE + 1))}


def test_reports_overlap(capsys):
    """At most a third of the grams, and of the questions, is known; the shares by origin are shown.

    More transcripts hold more grams: what a few of them share with the questions is a lower bound.
    """
    known: set[tuple[str, ...]] = set()
    for index in range(TRAINING_TRANSCRIPTS):
        transcript = draw(100, index)
        if transcript.kind == "finance":
            asked = transcript.messages[1]["content"].split("Question: ", 1)[1]
            known |= grams(asked)
    for origin in ORIGINS:
        questions = [grams(question.text) for question in every() if question.origin == origin]
        total = sum(len(one) for one in questions)
        shared = sum(len(one & known) for one in questions)
        whole = sum(one <= known for one in questions)
        with capsys.disabled():
            print(
                f"\n{origin}, lower bound from {TRAINING_TRANSCRIPTS} transcripts: "
                f"{shared} of {total} 8-grams, {whole} of {len(questions)} questions whole"
            )
        assert shared <= total / 3
        assert whole <= len(questions) / 3
