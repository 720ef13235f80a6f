"""The shortest end of an answer that a limit cut off."""

import re
from collections.abc import Iterator

import pytest

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.remote.constraints.answer_check import AnswerCheck

TAGGED = """
start: HEAD CODE TEXT
TEXT: (/(?s:.*)/) & ~(/(?s:.*)/ "<order>" /(?s:.*)/)
HEAD: (/(?s:.*)/ "<order>") & ~(/(?s:.*)/ "<order>" /(?s:.+)/)
CODE: /[A-Z]{2}-[0-9]{3}<\\/order>/
"""


@pytest.fixture(scope="module")
def check() -> Iterator[AnswerCheck]:
    found = AnswerCheck()
    yield found
    found.aclose()


@pytest.mark.parametrize("begun", ["", "Good", "Is it? I need it for a goo", "a < b, <orde"])
def test_free_text_is_closed_by_the_tag_that_has_to_follow(check, begun):
    end = check.closing(ConstraintSpec("grammar", TAGGED), begun)
    assert end is not None
    assert re.fullmatch(r"[^>]*<order>[A-Z]{2}-\d{3}</order>", begun + end)


def test_an_open_tag_is_closed_from_where_it_stands(check):
    end = check.closing(ConstraintSpec("grammar", TAGGED), "Well <order>QR-7")
    assert end is not None
    assert re.fullmatch(r"\d\d</order>", end)


def test_a_text_that_begins_no_output_has_no_end(check):
    assert check.closing(ConstraintSpec("grammar", TAGGED), "<order>7") is None
