"""Extension of griffe: shows sections named `Example` as code.

griffe knows doctests in sections named `Examples`; ours are singular.
"""

from typing import Any

import griffe


class DoctestSections(griffe.Extension):
    """Gives sections with doctests the name by which griffe knows them."""

    def on_object(self, *, obj: griffe.Object, **_given: Any) -> None:
        """Rename the section of an object that was read."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
