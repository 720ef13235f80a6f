"""Places of a type that are held to options: the options as the place reads them, and its schema.

While a schema is written and rewritten, a text stands in for options that are not known yet.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agentrt.base.errors import ConstraintError
from agentrt.base.one_of import OneOf

if TYPE_CHECKING:
    from pydantic_core import CoreSchema, SchemaValidator

STAND_IN = "\ue000"
"""First character of a text that stands in for options in a schema: it has no meaning."""

FEW = 8
"""Number of options that are read where many are declared: what is wrong with all shows there."""


@dataclass(slots=True, eq=False)
class HeldPlace:
    """A place of a type that is held to options.

    Attributes:
        one_of: The options.
        core: Pydantic's schema of the type with its `OneOf`; None if code of an author would run.
        bounds: The same with the bounds behind `OneOf`, which leave options out; None without any.
        declared: The `OneOf` of the type, for which arguments of a tool have chosen `one_of`.
    """

    one_of: OneOf
    core: CoreSchema | None = None
    bounds: CoreSchema | None = None
    declared: OneOf | None = None
    _texts: tuple[str, ...] | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """The options as JSON, without those that the bounds leave out; worked out once.

        Raises:
            NotYetKnown: A node with options is still pending.
            ConstraintError: An option has no JSON form, or is none of the type.
            Exception: The error of a node that has failed.
        """
        if self._texts is None:
            self.one_of.prepare()
            self._texts = self._within_bounds(self._read(self.one_of.texts))
        return self._texts

    def first(self, count: int) -> HeldPlace:
        """The same with the first of its options alone, which are known."""
        return self.given(self.one_of.first(count))

    def given(self, chosen: OneOf) -> HeldPlace:
        """The same with the options that bound arguments have chosen."""
        return replace(self, one_of=chosen, declared=self.one_of, _texts=None)

    def is_like(self, other: HeldPlace) -> bool:
        """Whether it has the same options, read in the same way."""
        mine, theirs = (self.core, self.bounds), (other.core, other.bounds)
        return self.one_of is other.one_of and mine == theirs

    def _read(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        reader = _reader_of(self.core)
        for text in texts if reader is not None else ():
            reason = self._refusal(reader, text)
            if reason:
                raise ConstraintError(
                    f"the option {text[:60]} of OneOf is none of its type: {reason}",
                    hint="Leave it out, or widen the type",
                )
        return texts

    def _within_bounds(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        reader = _reader_of(self.bounds)
        if reader is None:
            return texts
        return tuple(text for text in texts if not self._refusal(reader, text))

    def _refusal(self, reader: SchemaValidator | None, text: str) -> str:
        """Why an option is not read; "" if it is.

        Raises:
            ConstraintError: A bound does not apply to options of this kind.
        """
        from pydantic_core import ValidationError

        assert reader is not None
        try:
            reader.validate_json(text, context={self.declared or self.one_of: self.one_of})
        except ValidationError as wrong:
            return str(wrong.errors(include_url=False)[0]["msg"])
        except TypeError as wrong:
            raise ConstraintError(
                f"a bound beside OneOf does not apply to the option {text[:60]}: {wrong}",
                hint="Leave the bound out",
            ) from None
        return ""


def held_schema(
    place: HeldPlace, late: dict[str, HeldPlace], prefix: str, *, writes_out: bool = False
) -> dict[str, Any]:
    """The JSON Schema of a place: its options.

    A text stands in for options that are not known, and for many, of which the first few are read;
    the place is added to `late` by a name with the prefix.

    Args:
        place: The place.
        late: Places whose options come later.
        prefix: Beginning of the names.
        writes_out: Whether to write many options out, too.

    Raises:
        ConstraintError: A known option is none of the type.
    """
    one_of = place.one_of
    if one_of.is_fixed and (writes_out or not one_of.is_large):
        options = [json.loads(text) for text in place.texts]
        return {"enum": options} if options else {"not": {}}
    if one_of.is_large:
        _ = place.first(FEW).texts
    known = (name for name, other in late.items() if other.is_like(place))
    name = next(known, f"{prefix}:{len(late)}")
    late[name] = place
    return {"enum": [STAND_IN + name]}


def texts_by_hole(late: Mapping[str, HeldPlace]) -> dict[str, tuple[str, ...]]:
    """The options of every hole, as JSON.

    Raises:
        NotYetKnown: A node with options is still pending.
        ConstraintError: An option has no JSON form, or is none of its type.
        Exception: The error of a node that has failed.
    """
    return {name: place.texts for name, place in late.items()}


def _reader_of(core: CoreSchema | None) -> SchemaValidator | None:
    from pydantic_core import SchemaError, SchemaValidator

    if core is not None:
        with contextlib.suppress(SchemaError):  # a part of it stands elsewhere
            return SchemaValidator(core)
    return None
