"""Forms that a server has refused for a constraint: not sent for it again."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.remote.constraints.constraint_forms import ConstraintForm

_MOST = 256

_Key = tuple[ConstraintSpec, tuple[str, ...]]


class RefusedForms:
    """Remembers refusals, as long as a server is used.

    A refusal is of one constraint: a schema that is too large for a form says nothing of others.

    Example:
        >>> from agentrt.remote.constraints.requested_output import RequestedOutput
        >>> spec = ConstraintSpec("json", "{}")
        >>> first, second = (ConstraintForm(name, RequestedOutput(), True) for name in "ab")
        >>> refused = RefusedForms()
        >>> refused.note(spec, first)
        >>> [form.name for form in refused.left(spec, [first, second])]
        ['b']
    """

    def __init__(self) -> None:
        self._names: OrderedDict[_Key, set[str]] = OrderedDict()

    def note(self, spec: ConstraintSpec, form: ConstraintForm) -> None:
        """Remember a refusal; of many constraints the latest count."""
        key = _key(spec)
        self._names.setdefault(key, set()).add(form.name)
        self._names.move_to_end(key)
        if len(self._names) > _MOST:
            self._names.popitem(last=False)

    def left(
        self, spec: ConstraintSpec | None, forms: Sequence[ConstraintForm | None]
    ) -> list[ConstraintForm | None]:
        """The forms that were not refused for a constraint; all if every one was."""
        if spec is None or not self._names:
            return list(forms)
        names = self._names.get(_key(spec), set())
        return [one for one in forms if one is None or one.name not in names] or list(forms)


def _key(spec: ConstraintSpec) -> _Key:
    """A constraint as a key: the schemas of its tools are objects, which have no hash."""
    tools = tuple(json.dumps([tool.name, tool.parameters]) for tool in spec.tools)
    return replace(spec, tools=()), tools
