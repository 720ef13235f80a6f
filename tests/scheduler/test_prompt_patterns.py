"""Which prompt comes next, and how it begins."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.base.segments import Close, Generated, Hole, Open, Text
from agentrt.scheduler.estimates.prompt_parts import (
    EarlierPrompt,
    KnownParts,
    begins_with,
    text_hash,
)
from agentrt.scheduler.estimates.prompt_patterns import PromptPatterns, is_likely

AT = ("report", "search begins")
TEXTS = ("Be brief.", "Question: ", "\nPassage: ", "\nAnswer.", "Go on.")
QUESTION = ("argument", "question")


def known_of(question, *prompts, texts=TEXTS, **values):
    found: Any = {QUESTION: question, **{("result", site): text for site, text in values.items()}}
    hashes = {text_hash(text): text for text in texts}
    return KnownParts(prompts, found, hashes, frozenset(hashes))


def asks(question, passage):
    """The prompt of a program that writes both into one text."""
    text = f"Question: {question}\nPassage: {passage}\nAnswer."
    return (Open("system"), Text("Be brief."), Close(), Open("user"), Text(text), Close())


def learned(runs=4, form=("default", "template")):
    patterns: Any = PromptPatterns()
    for number in range(runs):
        known = known_of(f"question {number}")
        guess = patterns.guess(AT, known)
        prompt = asks(f"question {number}", f"passage {number}")
        patterns.learn(AT, "write", prompt, known, guess, form)
    return patterns


def written(guess):
    return "".join(one.text for one in guess.segments if isinstance(one, Text))


def test_a_prompt_is_known_up_to_the_first_value_that_is_not():
    guess = learned().guess(AT, known_of("another"))
    assert guess.site == "write"
    assert written(guess) == "Be brief.Question: another\nPassage: "
    assert not guess.complete


def test_a_value_that_is_known_by_then_is_part_of_it():
    patterns: Any = PromptPatterns()
    after = ("report", "search ended")
    for number in range(3):
        known = known_of(f"question {number}", search=f"passage {number}")
        prompt = asks(f"question {number}", f"passage {number}")
        patterns.learn(after, "write", prompt, known, patterns.guess(after, known))
    guess = patterns.guess(after, known_of("another", search="what was found"))
    assert written(guess) == "Be brief.Question: another\nPassage: what was found\nAnswer."
    assert guess.complete


def test_a_prompt_continues_an_earlier_one():
    patterns: Any = PromptPatterns()
    for number in range(3):
        asked = (Open("user"), Text(f"q {number}"), Close())
        answer = Generated(f"answer {number}")
        before = EarlierPrompt("plan", (*asked, Open("assistant"), answer, Close()))
        known = known_of(f"q {number}", before)
        now: Any = (*before.segments, Open("user"), Text("Go on."), Close())
        patterns.learn(AT, "write", now, known, patterns.guess(AT, known))
    last = EarlierPrompt("plan", (Open("user"), Text("x"), Close()))
    guess = patterns.guess(AT, known_of("x", last))
    assert guess.base_site == "plan"
    assert guess.segments == (*last.segments, Open("user"), Text("Go on."), Close())
    assert guess.base_segments == len(last.segments)


def test_a_branch_leaves_the_prompt_that_both_continue():
    """A guard was asked beside the chat: what follows has not the question of the guard."""
    patterns: Any = PromptPatterns()
    for number in range(3):
        shared = (Open("user"), Text(f"message {number}"), Close())
        guard = EarlierPrompt("guard", (*shared, Open("user"), Text("Is that allowed?"), Close()))
        known = known_of(f"message {number}", guard)
        now: Any = (*shared, Open("user"), Text("Go on."), Close())
        patterns.learn(AT, "decline", now, known, patterns.guess(AT, known))
    shared = (Open("user"), Text("another"), Close())
    guard = EarlierPrompt("guard", (*shared, Open("user"), Text("Is that allowed?"), Close()))
    guess = patterns.guess(AT, known_of("another", guard))
    assert guess.segments == (*shared, Open("user"), Text("Go on."), Close())
    assert guess.complete


def test_nothing_is_likely_before_it_was_tried_twice():
    guesses = [learned(runs).guess(AT, known_of("x")) for runs in (1, 2, 3, 4)]
    assert [is_likely(guess) for guess in guesses] == [False, False, True, True]


def test_a_branch_that_is_seldom_taken_is_not_likely():
    patterns = learned(4)
    for number in range(12):
        known = known_of(f"question {number}")
        site = "write" if number % 3 == 0 else ""
        prompt = asks(f"question {number}", "p") if site else ()
        patterns.learn(AT, site, prompt, known, patterns.guess(AT, known))
    guess = patterns.guess(AT, known_of("x"))
    assert guess is None or not is_likely(guess)


def test_a_wrong_guess_counts_against_it():
    patterns = learned(4)
    before = patterns.guess(AT, known_of("x")).probability
    known = known_of("x")
    other = (Open("system"), Text("Be verbose."), Close())
    patterns.learn(AT, "write", other, known, patterns.guess(AT, known))
    assert patterns.guess(AT, known_of("x")).probability < before == 1.0


def test_a_value_is_no_text_that_is_always_written():
    """The prompt before was the question itself, so its text was seen."""
    patterns: Any = PromptPatterns()
    for question in ("one and two", "three and four"):
        known = known_of(question, texts=(*TEXTS, question))
        guess = patterns.guess(AT, known)
        patterns.learn(AT, "write", asks(question, "p"), known, guess)
    assert written(patterns.guess(AT, known_of("five"))).startswith("Be brief.Question: five")
    assert patterns.guess(AT, known_of("five")).probability == 1.0


def test_what_stands_behind_a_hole_is_not_learned():
    patterns: Any = PromptPatterns()
    known = known_of("q", texts=())
    prompt = (Open("user"), Hole("n"), Close())
    for _ in range(3):
        patterns.learn(AT, "write", prompt, known, patterns.guess(AT, known))
    assert patterns.guess(AT, known).segments == (Open("user"),)


def test_other_processes_learn_on():
    guess: Any = PromptPatterns(learned().changed_rows()).guess(AT, known_of("another"))
    assert written(guess) == "Be brief.Question: another\nPassage: "
    assert is_likely(guess)
    assert guess.form == ("default", "template")


def test_the_form_of_a_prompt_with_tools_is_not_stored():
    guess: Any = PromptPatterns(learned(form=None).changed_rows()).guess(AT, known_of("another"))
    assert guess.form is None


def test_texts_of_a_run_are_stored_in_no_form():
    """Nor a hash of them: who has a guess could compare it."""
    patterns: Any = PromptPatterns()
    secret, hashes = "a passage", {text_hash(text): text for text in ("Be brief.", "a passage")}
    public = frozenset({text_hash("Be brief.")})
    for number in range(3):
        known = KnownParts((), {QUESTION: f"question {number}"}, hashes, public)
        prompt = (Open("user"), Text("Be brief."), Text(secret), Text(f"question {number}"))
        patterns.learn(AT, "write", prompt, known, patterns.guess(AT, known))
    stored = str(patterns.changed_rows())
    assert text_hash("Be brief.") in stored
    assert text_hash(secret) not in stored
    assert secret not in stored
    assert "question 1" not in stored


@pytest.mark.parametrize(
    "name",
    ["[]", "[1]", '["s","form","a","b"]', '["s",0,"open","nobody"]', '["s","base",1,2]', "{"],
)
def test_malformed_rows_are_refused(name):
    (row,) = learned().changed_rows()
    with pytest.raises(ValueError, match=r"Expecting|no part of a prompt"):
        PromptPatterns([type(row)(*row.key, 3, {name: 1.0})])


texts = st.lists(st.text("ab ", max_size=4), max_size=5)


@given(texts, texts)
def test_a_beginning_is_one_wherever_its_texts_are_cut(one, more):
    whole: Any = (Open("user"), Text("".join(one + more)), Close())
    cut: Any = (Open("user"), *(Text(text) for text in one))
    assert begins_with(whole, cut)
    assert begins_with((Open("user"), *(Text(text) for text in (*one, *more)), Close()), cut)
    assert not begins_with(whole, (*cut, Text("x")))


@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=4), st.text("xyz", min_size=3))
def test_what_is_expected_is_the_beginning_of_what_comes(constant, value):
    """Of prompts that are put together in the same way every time."""
    patterns: Any = PromptPatterns()

    def prompt(question):
        return (Open("user"), Text("".join(constant) + question), Text(constant[0]), Close())

    for number in range(3):
        known = known_of(f"question {number}")
        patterns.learn(AT, "s", prompt(f"question {number}"), known, patterns.guess(AT, known))
    guess = patterns.guess(AT, known_of(value))
    assert guess.complete
    assert begins_with(prompt(value), guess.segments)
