"""References to keys; the keys themselves stay out of arguments and traces."""

from __future__ import annotations

import os

from agentrt.base.errors import UsageError


def key_name(reference: str, option: str) -> str:
    """The name of the environment variable in `env:NAME`, which holds a key.

    Args:
        reference: The reference.
        option: Option that was given it, for messages.

    Raises:
        UsageError: It is no such reference, or the variable holds nothing.
    """
    scheme, _, name = reference.partition(":")
    if scheme != "env" or not name:
        raise UsageError(
            f"{option} is not a reference", hint="Put the key in a variable and give env:NAME"
        )
    if not os.environ.get(name):
        raise UsageError(f"the variable {name} holds no API key", hint=f"export {name}=...")
    return name
