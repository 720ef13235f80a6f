"""The extra `engine`: packages of the embedded engine, which a light install lacks.

The rooms that import these packages call `require_packages` before they do, so that a light install
ends in one error that names the remedy instead of in a `ModuleNotFoundError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from agentrt.base.errors import NotInstalled

ENGINE_PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "jinja2")
"""Import names of the packages that the extra installs."""


def missing_packages(names: Sequence[str] = ENGINE_PACKAGES) -> tuple[str, ...]:
    """Packages that are not installed, of the given ones; none of them is imported."""
    return tuple(name for name in names if not _is_installed(name))


def require_packages(user: str, names: Sequence[str] = ENGINE_PACKAGES, *, hint: str = "") -> None:
    """Check that packages of the extra are installed.

    Args:
        user: The feature that needs them, subject of the message.
        names: Import names of the packages.
        hint: Remedy; "" takes that of the error.

    Raises:
        NotInstalled: At least one is not.
    """
    missing = missing_packages(names)
    if missing:
        what = f"{user} needs {', '.join(missing)}, not installed here"
        raise NotInstalled(what, hint=hint)


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ModuleNotFoundError, ValueError):  # hidden by an import hook, or without a spec
        return False
