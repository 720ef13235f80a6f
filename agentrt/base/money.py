"""Amounts of money, exactly: integers of a millionth of a millionth of the currency unit (pico).

A price of a hosted model is an amount a million tokens with a few decimals, so a token costs a
whole number of pico, and sums of any length are exact. No float is ever added, and no decimal
context of a program rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from agentrt.base.errors import UsageError

if TYPE_CHECKING:  # `decimal` is imported where an amount is read
    from decimal import Decimal

Amount: TypeAlias = "Decimal | int | float | str"
"""An amount as settings and programs give it; a float is the decimal number that it prints as."""

DECIMALS = 12
PICO = 10**DECIMALS
MAX_UNITS = 10**9
_SHOWN_DECIMALS = 4
_SHOWN_DIGITS = 2


def pico_of(amount: Amount, what: str, *, decimals: int = DECIMALS) -> int:
    """An amount in pico.

    Example:
        >>> pico_of("0.5", "cost"), pico_of(0.1, "cost")
        (500000000000, 100000000000)

    Args:
        amount: The amount, in units of the currency.
        what: Setting that it is from, for messages.
        decimals: Most digits behind the point.

    Raises:
        UsageError: The amount is no number, negative, too large, or has more decimals.
    """
    from decimal import Decimal, InvalidOperation

    hint = f"Give 0 or more with at most {decimals} decimals, such as 0.25"
    try:
        if isinstance(amount, bool) or not isinstance(amount, Decimal | int | float | str):
            raise InvalidOperation
        number = Decimal(repr(amount) if isinstance(amount, float) else amount)
    except InvalidOperation:
        raise UsageError(f"{what}={amount!r} is no amount of money", hint=hint) from None
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or (sign and any(digits)) or number > MAX_UNITS:
        raise UsageError(f"{what}={amount!r} is out of range", hint=hint)
    shift = DECIMALS + max(exponent, -2 * DECIMALS - len(digits))
    whole = int("".join(map(str, digits)) or "0")
    pico, rest = (whole * int(10**shift), 0) if shift >= 0 else divmod(whole, int(10**-shift))
    if rest or pico % 10 ** (DECIMALS - decimals):
        raise UsageError(f"{what}={amount!r} has too many decimals", hint=hint)
    return pico


def decimal_of(pico: int) -> Decimal:
    """The amount in units of the currency, exactly."""
    from decimal import Decimal

    return Decimal((0, tuple(map(int, str(pico))), -DECIMALS))


def exact_text(pico: int) -> str:
    """The amount in units of the currency with all of its digits, such as `0.00125`."""
    units, rest = divmod(pico, PICO)
    return f"{units}.{rest:0{DECIMALS}d}".rstrip("0").rstrip(".")


def money_text(pico: int, currency: str) -> str:
    """An amount for people: four decimals, or two digits of a smaller one.

    Example:
        >>> money_text(1_234_567_890_000, "USD"), money_text(1_250_000, "USD"), money_text(0, "EUR")
        ('1.2346 USD', '0.0000013 USD', '0 EUR')
    """
    if not pico:
        return f"0 {currency}".rstrip()
    decimals = _SHOWN_DECIMALS
    if pico < PICO // 10**_SHOWN_DECIMALS:
        decimals = min(DECIMALS, DECIMALS - len(str(pico)) + _SHOWN_DIGITS)
    quantum = 10 ** (DECIMALS - decimals)
    rounded = (pico + quantum // 2) // quantum * quantum
    units, rest = divmod(rounded, PICO)
    return f"{units}.{f'{rest:0{DECIMALS}d}'[:decimals]} {currency}".rstrip()
