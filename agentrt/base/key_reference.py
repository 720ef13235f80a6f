"""References to keys; the keys themselves stay out of arguments and traces."""

from __future__ import annotations

import os
from collections.abc import Mapping

from agentrt.base.errors import UsageError


def check_reference(reference: str, option: str) -> str:
    """The name in a reference, `env:NAME`; the variable need not be set.

    Args:
        reference: Name of a variable that holds a key, after `env:`.
        option: Option with the reference, for messages, which never repeat a value.

    Raises:
        UsageError: The reference has another form.
    """
    scheme, _, name = reference.partition(":")
    if scheme != "env" or not name or not name.isprintable():
        raise UsageError(
            f"{option} is not a reference", hint="Put the key in a variable and give env:NAME"
        )
    return name


def key_name(reference: str, option: str, environment: Mapping[str, str] | None = None) -> str:
    """The environment variable that a reference, `env:NAME`, names.

    Args:
        reference: Name of a variable that holds a key, after `env:`.
        option: Option with the reference, for messages.
        environment: Variables; None takes those of the process.

    Raises:
        UsageError: The reference has another form, or the variable is empty.
    """
    name = check_reference(reference, option)
    if not (os.environ if environment is None else environment).get(name):
        raise UsageError(
            f"{option}: the variable {name} holds no API key", hint=f"export {name}=..."
        )
    return name
