"""What a docstring says of a tool."""

import pytest

from agentrt.tools.docstring import read_docstring

GOOGLE = """Daily closes, newest
    last.

    Weekends are left out.

    Args:
        ticker: Symbol of the share,
            in capitals.
        days (int): How many.
        *more: Ignored.

    Returns:
        A list: of numbers.

    Raises:
        KeyError: Not an argument.
    """


def test_google_style():
    documented = read_docstring(GOOGLE)
    assert documented.description == "Daily closes, newest last.\nWeekends are left out."
    assert documented.arguments == {
        "ticker": "Symbol of the share, in capitals.",
        "days": "How many.",
        "more": "Ignored.",
    }


@pytest.mark.parametrize(
    ("text", "description"),
    [
        (None, ""),
        ("", ""),
        ("One line.", "One line."),
        ("Note: this is no section because text follows.", None),
        ("First.\n\nExamples:\n    x: 1", "First."),
    ],
    ids=("none", "empty", "line", "colon", "examples"),
)
def test_plain_text(text, description):
    documented = read_docstring(text)
    assert documented.description == (text if description is None else description)
    assert documented.arguments == {}


def test_fields():
    documented = read_docstring("Adds.\n\n:param int a: Left.\n:param b: Right.\n:returns: Sum.")
    assert documented.description == "Adds."
    assert documented.arguments == {"a": "Left.", "b": "Right."}
