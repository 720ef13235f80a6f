"""Messages between a declaration and the process that works it out."""

from __future__ import annotations

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import ConstraintError
from agentrt.base.json_style import JsonStyle
from agentrt.base.record import record
from agentrt.protocol.wire import Wire


@record
class Normalize:
    """Bring a schema into normal form.

    Attributes:
        source: The schema as JSON.
        narrow: Whether to narrow it to what a model should write.
    """

    source: str
    narrow: bool


@record
class Specify:
    """Find the spec of a schema that must be enforced as a whole.

    Attributes:
        source: The schema in normal form, as JSON.
        is_part: Whether it is part of a larger grammar.
        style: Style of its texts.
    """

    source: str
    is_part: bool
    style: JsonStyle


@record
class Relax:
    """Find the spec of the enforceable part of a schema.

    Attributes:
        source: The schema in normal form, as JSON.
        original: The schema that values are checked against, as JSON.
        is_part: Whether it is part of a larger grammar.
    """

    source: str
    original: str
    is_part: bool = False


@record
class Validate:
    """Find the compiler's complaint about a regex or a grammar."""

    spec: ConstraintSpec


@record
class DrawTexts:
    """Find texts of a constraint."""

    spec: ConstraintSpec


@record
class NormalForm:
    """A schema in normal form, as JSON."""

    source: str


@record
class Specified:
    """The spec of a schema."""

    spec: ConstraintSpec


@record
class RelaxedSpec:
    """The enforceable part of a schema.

    Attributes:
        spec: Constraint of the part.
        source: The part as JSON.
        judged: The original as JSON, as far as Python's validator can check it.
    """

    spec: ConstraintSpec
    source: str
    judged: str


@record
class Complaint:
    """The compiler's error; "" if there is none."""

    text: str


@record
class Texts:
    """Texts of a constraint, a short one first."""

    texts: tuple[str, ...]


@record
class ConstraintRefused:
    """The constraint is refused; the fields of the `ConstraintError`."""

    message: str
    pointer: str = ""
    keyword: str = ""
    hint: str = ""

    @classmethod
    def from_error(cls, wrong: ConstraintError) -> ConstraintRefused:
        """The refusal of an error."""
        return cls(wrong.message, wrong.pointer, wrong.keyword, wrong.hint)

    def error(self) -> ConstraintError:
        """The error of the refusal."""
        return ConstraintError(
            self.message, pointer=self.pointer, keyword=self.keyword, hint=self.hint
        )


@record
class DeclarationBroke:
    """An exception that is a fault of this project."""

    what: str


Order = Normalize | Specify | Relax | Validate | DrawTexts
Answer = (
    NormalForm | Specified | RelaxedSpec | Complaint | Texts | ConstraintRefused | DeclarationBroke
)

ORDERS: Wire[Order] = Wire(Normalize, Specify, Relax, Validate, DrawTexts)
ANSWERS: Wire[Answer] = Wire(
    *(NormalForm, Specified, RelaxedSpec, Complaint, Texts, ConstraintRefused, DeclarationBroke)
)
