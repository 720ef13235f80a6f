"""Places of the values of a type, from pydantic's core schema.

What reads or writes in a way of its own stays whole: unions of alike kinds, sets, dates, records
with extra fields or with serializers of the author.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache, partial
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import (
    SchemaSerializer,
    SchemaValidator,
    core_schema,
    to_jsonable_python,
)

from agentrt.structured.rendering.places import (
    NOT_WRITTEN,
    ChoicePlace,
    Entries,
    Items,
    Member,
    Members,
    Place,
    TextPlace,
    Whole,
    chosen,
    plain_place,
)
from agentrt.structured.types.core_schemas import parts_of

Core = dict[str, Any]

_ANY_TEXT = frozenset({"type", "ref", "metadata", "strict", "pattern", "regex_engine"})
_TEXT = _ANY_TEXT | {"min_length", "max_length"}
_FACTORIES = (list, dict)
_CONFIG = frozenset(
    {"title", "frozen", "extra_fields_behavior", "validate_by_name", "validate_by_alias"}
    | {"validate_assignment", "from_attributes", "revalidate_instances", "str_max_length"}
)
"""Settings of a record that change no text."""

_DIGITS = "-0123456789"
_FIRST: Mapping[str, str] = {
    **dict.fromkeys(("int", "float", "decimal", "complex"), _DIGITS),
    **dict.fromkeys(("str", "date", "time", "datetime", "uuid", "url", "timedelta"), '"'),
    **dict.fromkeys(("list", "tuple", "set", "frozenset", "deque"), "["),
    **dict.fromkeys(("dict", "model", "model-fields", "typed-dict", "dataclass"), "{"),
    "bool": "tf",
    "none": "n",
}
_LOOSE = frozenset({"decimal", "date", "time", "datetime", "timedelta"})
"""Kinds that are also read from values that begin otherwise."""


@lru_cache(maxsize=256)
def place_of(adapter: TypeAdapter[Any]) -> Place:
    """The place of the values of a type."""
    core: Any = adapter.core_schema
    if core["type"] != "definitions":
        return TypedPlaces({}).place(core)
    definitions = {one["ref"]: one for one in core["definitions"]}
    return TypedPlaces(definitions).place(core["schema"])


class TypedPlaces:
    """Makes the places of a type, those of a definition when they are first read.

    Args:
        definitions: Core schemas by the names under which others refer to them.
        serializes: Whether values are written by their schema, as in a model. Elsewhere they are
            written by what they are.
    """

    def __init__(self, definitions: Mapping[str, Core], *, serializes: bool = False) -> None:
        self._definitions = definitions
        self._serializes = serializes
        self._named: dict[str, Place] = {}

    @cached_property
    def _inside(self) -> TypedPlaces:
        """The places inside a model."""
        return self if self._serializes else TypedPlaces(self._definitions, serializes=True)

    def place(self, core: Core) -> Place:
        """The place of a core schema."""
        whole = self._whole(core)
        if _FORMS.get(core["type"]) is None or "serialization" in core:
            return whole
        found: Place | None = _FORMS[core["type"]](self, core, whole)
        return whole if found is None else found

    def _whole(self, core: Core) -> Whole:
        @lru_cache(maxsize=1)
        def schema() -> Any:
            used = _referred(core, self._definitions)
            here: Any = core
            return core_schema.definitions_schema(here, used) if used else core

        @lru_cache(maxsize=1)
        def validator() -> SchemaValidator:
            return SchemaValidator(schema())

        @lru_cache(maxsize=1)
        def serializer() -> SchemaSerializer:
            return SchemaSerializer(schema())

        def plain(value: Any) -> Any:
            if self._serializes:
                return serializer().to_python(value, mode="json", by_alias=True)
            return to_jsonable_python(value, inf_nan_mode="constants")

        return Whole(lambda text: validator().validate_json(text), plain)

    def _reference(self, core: Core, whole: Whole) -> Place:
        name = core["schema_ref"]

        def at(first: str) -> Place:
            if name not in self._named:
                self._named[name] = self.place(self._definitions[name])
            return chosen(self._named[name], first)

        return ChoicePlace(at)

    def _text(self, core: Core, whole: Whole) -> Place | None:
        return TextPlace() if core.keys() <= _TEXT else None

    def _any(self, core: Core, whole: Whole) -> Place:
        return plain_place(whole.read)

    def _list(self, core: Core, whole: Whole) -> Place:
        item = self.place(core.get("items_schema", {"type": "any"}))
        return Items(lambda _: item, whole)

    def _tuple(self, core: Core, whole: Whole) -> Place | None:
        places = [self.place(one) for one in core["items_schema"]]
        rest = core.get("variadic_item_index")
        if rest is None:
            return Items(lambda index: places[index], whole)
        return (
            Items(lambda index: places[min(index, rest)], whole)
            if rest + 1 == len(places)
            else None
        )

    def _dict(self, core: Core, whole: Whole) -> Place | None:
        keys = core.get("keys_schema", {"type": "str"})
        if not isinstance(self.place(keys), TextPlace):
            return None
        return Entries(self.place(core.get("values_schema", {"type": "any"})), whole)

    def _nullable(self, core: Core, whole: Whole) -> Place:
        inside = self.place(core["schema"])
        return ChoicePlace(lambda first: whole if first == "n" else chosen(inside, first))

    def _default(self, core: Core, whole: Whole) -> Place:
        return self.place(core["schema"])

    def _union(self, core: Core, whole: Whole) -> Place:
        choices = [one[0] if isinstance(one, tuple) else one for one in core["choices"]]
        return ChoicePlace(partial(self._choose, choices, whole))

    def _choose(self, choices: list[Core], whole: Whole, first: str) -> Place:
        fit = [one for one in choices if self._may_begin(one, first)]
        return chosen(self.place(fit[0]), first) if len(fit) == 1 else whole

    def _may_begin(self, core: Core, first: str) -> bool:
        """Whether a value that begins with a character may be read by a core schema."""
        while core["type"] in ("definition-ref", "nullable", "default"):
            if core["type"] == "nullable" and first == "n":
                return True
            name = core.get("schema_ref")
            core = core["schema"] if name is None else self._definitions[name]
        if core["type"] == "model" and core.get("root_model"):
            return True
        return core["type"] in _LOOSE or first in _FIRST.get(core["type"], first)

    def _model(self, core: Core, whole: Whole) -> Place | None:
        if _is_own(core) or _field_serializer_in(core):
            return None
        if core.get("root_model"):
            inside = self._inside.place(core["schema"])
            return ChoicePlace(lambda first: chosen(inside, first))
        fields = core["schema"]
        if fields["type"] != "model-fields" or fields.get("computed_fields"):
            return None
        return self._inside._members(fields["fields"].items(), whole)

    def _dataclass(self, core: Core, whole: Whole) -> Place | None:
        arguments = core["schema"]
        if _is_own(core) or _field_serializer_in(core) or arguments["type"] != "dataclass-args":
            return None
        if arguments.get("computed_fields") or core.get("post_init"):
            return None
        serializes = hasattr(core["cls"], "__pydantic_serializer__")
        inside = self._inside if serializes else self
        named = [(one["name"], one) for one in arguments["fields"]]
        return inside._members(named, whole)

    def _typed_dict(self, core: Core, whole: Whole) -> Place | None:
        if _is_own(core) or core.get("computed_fields") or _field_serializer_in(core):
            return None
        return self._members(core["fields"].items(), whole)

    def _members(self, fields: Any, whole: Whole) -> Place | None:
        members: list[Member] = []
        for name, one in fields:
            key = one.get("validation_alias", name)
            written = one.get("serialization_alias", name) if self._serializes else name
            is_odd = one.get("serialization_exclude") or one.get("init") is False
            if not isinstance(key, str) or is_odd or "serialization_exclude_if" in one:
                return None
            place = self.place(one["schema"])
            absent = self._absent(one["schema"])
            if one["type"] == "typed-dict-field" and not one.get("required", True):
                absent = absent or _nothing
            members.append(Member(key, written, place, absent))
        return Members(members, whole)

    def _absent(self, core: Core) -> Callable[[], Any] | None:
        """Gives the plain default of a field; None if it has none that is always the same."""
        if core["type"] != "default" or core.get("validate_default"):
            return None
        factory = core.get("default_factory")
        if factory is not None and (factory not in _FACTORIES):
            return None
        plain = self._whole(core["schema"]).plain
        return lambda: plain(core["default"] if factory is None else factory())


def _nothing() -> Any:
    return NOT_WRITTEN


def _is_own(core: Core) -> bool:
    """Whether the settings of a record may change its text."""
    config = core.get("config", {})
    behaviors = (config.get("extra_fields_behavior"), core.get("extra_behavior"))
    return not config.keys() <= _CONFIG or "allow" in behaviors


def _field_serializer_in(core: Core) -> bool:
    """Whether a field is written by a method of the record."""
    return any(
        bool(part.get("serialization", {}).get("is_field_serializer")) for part in parts_of(core)
    )


def _referred(core: Core, definitions: Mapping[str, Core]) -> list[Any]:
    """The definitions that a core schema refers to, also by others."""
    used: dict[str, Core] = {}
    todo = [core]
    while todo:
        for part in parts_of(todo.pop()):
            name = str(part.get("schema_ref"))
            if part["type"] == "definition-ref" and name not in used:
                todo.append(used.setdefault(name, definitions[name]))
    return list(used.values())


_FORMS: Mapping[str, Callable[[TypedPlaces, Core, Whole], Place | None]] = {
    "definition-ref": TypedPlaces._reference,
    "str": TypedPlaces._text,
    "any": TypedPlaces._any,
    "list": TypedPlaces._list,
    "tuple": TypedPlaces._tuple,
    "dict": TypedPlaces._dict,
    "nullable": TypedPlaces._nullable,
    "default": TypedPlaces._default,
    "union": TypedPlaces._union,
    "model": TypedPlaces._model,
    "dataclass": TypedPlaces._dataclass,
    "typed-dict": TypedPlaces._typed_dict,
}
