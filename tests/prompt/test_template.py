"""Templates are programs of strangers: what they may do, and what they may not."""

import pytest

from agentrt.base.errors import RequestRejected
from agentrt.prompt.template import ChatTemplate, TemplateRefused, to_json

MESSAGES = [{"role": "user", "content": "hi"}]


def render(source, **special):
    return ChatTemplate(source, special, "a template").render(MESSAGES, None)


def test_json_has_blanks_as_in_transformers():
    assert to_json({"a": [1, "é"]}) == '{"a": [1, "é"]}'
    assert to_json({"a": 1}, indent=2) == '{\n  "a": 1\n}'
    assert render("{{ messages | tojson }}") == '[{"role": "user", "content": "hi"}]'
    assert render("{{ {'a': 1} | tojson(separators=(',', ':')) }}") == '{"a":1}'


def test_what_hugging_face_templates_use():
    source = (
        "{{ bos_token }}{% for m in messages %}\n"
        "    {% if loop.first %}\n{% continue %}\n{% endif %}\n{% endfor %}"
        "{% generation %}{{ messages[0].content }}{% endgeneration %}"
        "{% set ns = namespace(x=1) %}{% set ns.x = 2 %}{{ ns.x }}{{ strftime_now('%Y') | length }}"
        "{{ 'on' if add_generation_prompt }}{{ 'no tools' if tools is none }}"
    )
    assert render(source, bos_token="<s>") == "<s>hi24onno tools"


def test_the_date_stays_that_of_loading():
    template = ChatTemplate("{{ strftime_now('%f%S') }}", {}, "t")
    assert not template.reads_clock
    assert template.render(MESSAGES, None) == template.render(MESSAGES, None)
    assert template.reads_clock


def test_a_refusal_keeps_its_words():
    with pytest.raises(TemplateRefused, match=r"^no$"):
        render("{{ raise_exception('no') }}")


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ (messages | list).__init__.__globals__ }}",
        "{% for i in range(1000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 100000000 }}",
        "{{ [0] * 100000000 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ messages[0].nothing.at_all }}",
        "{{ lipsum(100000) }}",
        "{% for i in range(90000) %}{{ 'x' * 1000 }}{% endfor %}",
    ],
)
def test_what_they_may_not(source):
    with pytest.raises((TemplateRefused, RequestRejected)):
        render(source)


def test_what_a_template_looks_for_is_known():
    source = (
        "{% if '</think>' in messages[0].content %}{% endif %}"
        "{{ messages[0].content.split('[END]')[0] }}{{ messages[0]['role'] == 'user' }}"
        "{{ 'tool_calls' in messages[0] }}"
    )
    assert ChatTemplate(source, {}, "t").constants == ("</think>", "[END]")
