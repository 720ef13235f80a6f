"""References to keys; the keys themselves stay out of arguments and traces."""

from __future__ import annotations

import os

from agentrt.base.errors import UsageError


def key_name(reference: str, option: str) -> str:
    """The environment variable that a reference, `env:NAME`, names.

    Args:
        reference: Name of a variable that holds a key, after `env:`.
        option: Option with the reference, for messages.

    Raises:
        UsageError: The reference has another form, or the variable is empty.
    """
    scheme, _, name = reference.partition(":")
    if scheme != "env" or not name:
        raise UsageError(
            f"{option} is not a reference", hint="Put the key in a variable and give env:NAME"
        )
    if not os.environ.get(name):
        raise UsageError(f"the variable {name} holds no API key", hint=f"export {name}=...")
    return name
