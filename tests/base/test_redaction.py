"""A function of the user redacts content; where it fails, nothing of a text is left."""

from typing import Any

from agentrt import redact_content
from agentrt.base.redaction import has_redaction, redacted


def test_the_last_function_given_holds() -> None:
    @redact_content
    def upper(text: str) -> str:
        return text.upper()

    assert upper("a") == "A"
    assert redacted("name") == "NAME"
    redact_content(lambda text: text.replace("Ada", "[name]"))
    assert redacted("Ada") == "[name]"


def test_a_function_that_fails_leaves_nothing() -> None:
    def fail(text: str) -> Any:
        raise ValueError(text)

    redact_content(fail)
    assert redacted("secret") == "[redaction failed: ValueError]"
    redact_content(lambda text: None)  # type: ignore[type-var]
    assert redacted("secret") == "[redaction failed: NoneType]"


def test_none_ends_it() -> None:
    redact_content(lambda text: "")
    redact_content(None)
    assert redacted("Ada") == "Ada"
    assert not has_redaction()
