"""How a program is written: with or without what the language offers."""

from __future__ import annotations

from agentrt.base.record import record


@record
class PlayOptions:
    """Features of the language that a program uses.

    Attributes:
        forms: Outputs with a form are held to it; otherwise as many tokens are written freely.
        early_tools: Tools begin within their plan; otherwise at its end.
        holes: Calls are declared before what they quote has ended; otherwise afterwards.
        cancellation: A vote gives up what it does not need; otherwise it waits for all its calls.
    """

    forms: bool = True
    early_tools: bool = True
    holes: bool = True
    cancellation: bool = True
