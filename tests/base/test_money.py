"""Money is exact: what is written is what is counted, and no digit is lost in sums or on paper."""

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt import Prices, UsageError
from agentrt.base.money import PICO, decimal_of, exact_text, money_text, pico_of
from agentrt.base.prices import check_currencies

quick = settings(max_examples=100, derandomize=True, deadline=None)


@quick
@given(st.integers(0, 10**9 * PICO))
def test_an_amount_comes_back_whatever_the_decimal_context(pico: int) -> None:
    with localcontext(prec=3):
        assert pico_of(exact_text(pico), "cost") == pico
        assert pico_of(decimal_of(pico), "cost") == pico
        assert Fraction(decimal_of(pico)) == Fraction(pico, PICO)


@pytest.mark.parametrize("amount", [0.1, "0.1", Decimal("0.10"), "1e-1"])
def test_a_float_is_the_number_that_it_prints_as(amount: float | str | Decimal) -> None:
    assert pico_of(amount, "cost") == PICO // 10


@pytest.mark.parametrize(
    "amount", ["", "a", True, None, -1, "-0.5", "inf", "nan", 1e-13, "1e999999999", "1e-999999999"]
)
def test_what_is_no_amount_is_refused_by_its_name(amount: object) -> None:
    with pytest.raises(UsageError, match=r"cost="):
        pico_of(amount, "cost")  # type: ignore[arg-type]  # what a program may give all the same


@pytest.mark.parametrize(
    ("pico", "shown"),
    [
        (0, "0 USD"),
        (PICO, "1.0000 USD"),
        (1_234_560_000_000, "1.2346 USD"),
        (123_456_789, "0.0001 USD"),
        (99_999_999, "0.000100 USD"),
        (12_345_678, "0.000012 USD"),
        (7, "0.000000000007 USD"),
    ],
)
def test_small_amounts_keep_two_digits(pico: int, shown: str) -> None:
    assert money_text(pico, "USD") == shown


def test_tokens_and_seconds_cost_what_the_list_says() -> None:
    prices = Prices.of(input="1.25", cached_input="0.125", output=10, device_second="0.0007")
    assert prices.tokens_pico(1000, 400, 50) == 600 * 1_250_000 + 400 * 125_000 + 50 * 10_000_000
    assert decimal_of(prices.device_pico(3600.0)) == Decimal("2.52")
    assert prices.tokens_pico(10, 99, 0) == 10 * 125_000, "no more is cached than there is"
    bare = Prices.of(input=1, output=2)
    assert bare.cached_input_pico == bare.input_pico, "no discount is invented"


def test_the_dearer_of_two_engines_bounds_both() -> None:
    one, other = Prices.of(input=1, output=9), Prices.of(input=3, output=2)
    assert one.or_dearer(other) == Prices.of(input=3, output=9)
    with pytest.raises(UsageError, match="EUR and USD"):
        one.or_dearer(Prices.of(input=1, output=1, currency="EUR"))
    with pytest.raises(UsageError, match="one currency"):
        check_currencies({"USD", "EUR"})
