"""Templates that would take all time or memory are ended by counts, the same on every machine."""

import json
import re
import subprocess
import sys

import pytest

from agentrt.base.errors import ModelInvalid, RequestRejected
from agentrt.prompt import Codec
from agentrt.prompt.template import ChatTemplate, TemplateRefused
from agentrt.testing import tiny_engine

END = "{% endfor %}"
MESSAGES = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "there you are"}]
DOUBLED = "{% set ns = namespace(a=[1], b=[1], s='x', t=(1,), n=3) %}{% for i in range(60) %}"
LISTS = (
    DOUBLED
    + "{% set ns.a = [ns.a, ns.a] %}{% set ns.b = [ns.b, ns.b] %}{% set ns.t = (ns.t, ns.t) %}"
    + "{% endfor %}"
)
LONG = "{% set s = 'x' * 100000 %}{% for i in range(100000) %}"
HOSTILE = {
    "loops over a text": "{% set s = 'x' * 1000 %}" + "{% for c in s %}" * 3 + "{% endfor %}" * 3,
    "doubling with ~": DOUBLED + "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "doubling with +": DOUBLED + "{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "doubling lists": DOUBLED + "{% set ns.a = ns.a + ns.a %}{% endfor %}",
    "doubling in a block": DOUBLED
    + "{% set s %}{{ s }}{{ s }}{{ i }}{% endset %}{% endfor %}" * 1
    + "{% for i in range(99) %}{% set t %}{{ 'y' * 99999 }}{% endset %}{% endfor %}",
    "squaring": DOUBLED + "{% set ns.n = ns.n * ns.n %}{% endfor %}",
    "adding": DOUBLED
    + "{% for j in range(9999) %}{% set ns.n = ns.n + ns.n %}{% endfor %}{% endfor %}",
    "written": LISTS + "{{ ns.a }}",
    "as json": LISTS + "{{ ns.a | tojson }}",
    "as text": LISTS + "{{ ns.a | string }}",
    "joined": LISTS + "{{ ns.a ~ '' }}",
    "joined by a filter": LISTS + "{{ ns.a | join(',') }}",
    "formatted": LISTS + "{{ '%s' | format(ns.a) }}",
    "formatted by a method": LISTS + "{{ '{}'.format(ns.a) }}",
    "a namespace": LISTS + "{{ ns }}",
    "compared": LISTS + "{{ ns.a == ns.b }}",
    "tested": LISTS + "{{ ns.a is eq ns.b }}",
    "a member": LISTS + "{{ ns.a in [ns.b] }}",
    "sorted": LISTS + "{{ [ns.a, ns.b] | sort }}",
    "changed": LISTS + "{% for x in [1, 2] %}{{ loop.changed([ns.a, ns.b][x - 1]) }}" + END,
    "hashed": LISTS + "{{ {}[ns.t] }}",
    "in an error": LISTS + "{{ raise_exception(ns.a) }}",
    "in an index error": LISTS + "{{ [1].index(ns.a) }}",
    "in a key error": LISTS + "{{ messages[ns.a].x }}",
    "indent": "{{ 'x' | indent(100000000, true) }}",
    "indent of lines": "{{ ('\\n' * 100000) | indent(99999) }}",
    "center": "{{ 'x' | center(1000000000) }}",
    "ljust": "{{ 'x'.ljust(1000000000) }}",
    "expandtabs": "{{ '\\t'.expandtabs(1000000000) }}",
    "bytes": "{{ (1).to_bytes(1000000000, 'big') }}",
    "width": "{{ '%1000000000d' | format(1) }}",
    "width of a method": "{{ '{:1000000000}'.format(1) }}",
    "width as an argument": "{{ '{:{}}'.format(1, '1000000000') }}",
    "repeated field": "{{ ('{0}' * 100000).format('x' * 100000) }}",
    "replace": "{{ ('x' * 100000).replace('x', 'y' * 100000) }}",
    "replace nothing": "{{ ('x' * 100000) | replace('', 'y' * 100000) }}",
    "join": "{{ ('y' * 100000).join('x' * 100000) }}",
    "batch": "{{ [1] | batch(1000000000, 'x') | list }}",
    "round": "{{ 1.5 | round(100000000, 'floor') }}",
    "indent of json": "{{ messages | tojson(indent=1000000000) }}",
    "sum of lists": "{{ [[1]] | sum(start=[]) }}",
    "macros": "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}"
    "{% endmacro %}{{ f(40) }}",
    "endless macro": "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
    "callers": "{% macro g() %}{{ caller() }}{{ caller() }}{% endmacro %}"
    + "{% call g() %}" * 40
    + "x"
    + "{% endcall %}" * 40,
    "conditions": LONG + "{% for c in s if c == 'y' %}{% endfor %}{% endfor %}",
    "filters": LONG + "{{ s | map('upper') | select | list | length }}{% endfor %}",
    "searches": LONG + "{{ 'xxy' in s }}{% endfor %}",
    "slices": LONG + "{% set t = s[1:] %}{% endfor %}",
    "splits": LONG + "{% set t = s.split('x') %}{% endfor %}",
    "a long body": "{% for i in range(100000) %}" + "{% set a = 1 %}" * 500 + "{% endfor %}",
    "a long body in a block": "{% for i in range(100000) %}{% autoescape true %}"
    + "{% set a = 1 %}" * 500
    + "{% endautoescape %}{% endfor %}",
}
UNPARSABLE = {
    "parentheses": "{{" + "(" * 5000 + "1" + ")" * 5000 + "}}",
    "branches": "{% if 1 %}" * 300 + "{% endif %}" * 300,
    "loops": "{% for a in [1] %}" * 60 + "{% endfor %}" * 60,
    "sums": "{{ 1" + "+1" * 5_000 + "}}",
    "a number": "{{ " + "1" * 150_000 + "}}",
    "length": "x" * 200_001,
}


@pytest.fixture
def model(tmp_path):
    return tiny_engine(tmp_path / "model").model_path


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_rendering_is_refused(source):
    template = ChatTemplate(source, {}, "t")
    with pytest.raises((RequestRejected, TemplateRefused)):
        template.render(MESSAGES, None)


@pytest.mark.parametrize("source", UNPARSABLE.values(), ids=UNPARSABLE)
def test_what_cannot_be_compiled_is_invalid(source):
    with pytest.raises(ModelInvalid, match=r"^t\b"):
        ChatTemplate(source, {}, "t")


def test_memory_does_not_grow():
    """In a process of its own, which may map 400 MB more than Python takes."""
    script = (
        "import json, resource, sys\n"
        "from agentrt.prompt.template import ChatTemplate\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 400_000_000,) * 2)\n"
        "for source in json.load(sys.stdin):\n"
        "    try: ChatTemplate(source, {}, 't').render([], None)\n"
        "    except MemoryError: raise SystemExit(source[:200])\n"
        "    except Exception as error: assert 'MemoryError' not in repr(error.__cause__), source\n"
    )
    growing = re.compile("doubling|.*indent|center|re|j|ba")
    sources = [source for name, source in HOSTILE.items() if growing.match(name)]
    done = subprocess.run(
        [sys.executable, "-c", script], input=json.dumps(sources), text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["doubling with ~", "macros", "loops over a text"])
def test_a_model_with_such_a_template_is_invalid(model, name):
    (model / "chat_template.jinja").write_text(HOSTILE[name])
    with pytest.raises(ModelInvalid, match="chat template 'default'"):
        Codec.load(model)


def test_limits_grow_with_the_conversation():
    source = "{% for m in messages %}{% for c in m.content %}{{ c }}{% endfor %}{% endfor %}"
    text = "words " * 50_000
    assert ChatTemplate(source, {}, "t").render([{"role": "user", "content": text}], None) == text


def test_a_rendering_starts_afresh():
    template = ChatTemplate("{% for i in range(30000) %}{% endfor %}", {}, "t")
    assert [template.render(MESSAGES, None) for _ in range(4)] == [""] * 4
