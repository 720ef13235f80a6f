"""The choice of what is kept of prompts and answers: by flag, environment or `agentrt.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agentrt.base.content_config import CONTENT_VARIABLE, ContentConfig, content_choice
from agentrt.base.engines.engine_file import engine_file


def content_config(environment: Mapping[str, str], flag: str = "") -> ContentConfig:
    """The settings of `agentrt.toml`, under the choice of a flag or of `AGENTRT_CONTENT`.

    Args:
        environment: Environment variables.
        flag: Value of `--content`; "" if it is not given.

    Raises:
        UsageError: The choice is unknown, or `agentrt.toml` is malformed.
    """
    config = engine_file(environment).content or ContentConfig()
    variable = environment.get(CONTENT_VARIABLE, "")
    if flag and flag != variable:  # a command gives the variable for a missing flag
        choice = content_choice(flag, source="--content")
    else:
        choice = content_choice(variable.strip(), source=f"{CONTENT_VARIABLE}=")
    return config if choice is None else replace(config, keep=choice)
