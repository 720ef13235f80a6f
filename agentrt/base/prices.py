"""Prices of an engine, and what its tokens and its time cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentrt.base.errors import UsageError

if TYPE_CHECKING:
    from agentrt.base.money import Amount

CURRENCY = "USD"
PRICE_DECIMALS = 6
"""Decimals of a price a million tokens: then a token costs a whole number of pico."""

_PER_MILLION = 10**6
_NS_PER_S = 10**9


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of an engine; `Prices.of` makes them of amounts as price lists have them.

    Example:
        >>> from agentrt import Prices
        >>> prices = Prices.of(input="1.25", cached_input="0.125", output=10)
        >>> prices.tokens_pico(1_000_000, 0, 0) == prices.tokens_pico(0, 0, 125_000)
        True

    Attributes:
        input_pico: Price of a prompt token.
        cached_input_pico: Price of a prompt token that the engine found in its cache.
        output_pico: Price of an output token, reasoning included.
        device_second_pico: Price of a second of the whole engine.
        currency: Currency of the prices, such as `USD`.
    """

    input_pico: int = 0
    cached_input_pico: int = 0
    output_pico: int = 0
    device_second_pico: int = 0
    currency: str = CURRENCY

    @classmethod
    def of(
        cls,
        *,
        input: Amount | None = None,
        cached_input: Amount | None = None,
        output: Amount | None = None,
        device_second: Amount | None = None,
        currency: str = CURRENCY,
    ) -> Prices:
        """Prices by what price lists say.

        Args:
            input: Price of a million prompt tokens; goes with `output`.
            cached_input: Price of a million cached prompt tokens; None takes that of others.
            output: Price of a million output tokens.
            device_second: Price of a second of the whole engine, for one of one's own.
            currency: Letters of the currency.

        Raises:
            UsageError: None is given, one is malformed, or `input` and `output` are not both given.
        """
        if input is None and output is None and cached_input is None and device_second is None:
            raise UsageError(
                "prices: none is given", hint="Give input and output, or device_second"
            )
        if (input is None) != (output is None) or (cached_input is not None and input is None):
            missing = "output" if output is None and input is not None else "input"
            raise UsageError(
                f"prices: {missing} is missing",
                hint=f"Give {missing} too: what has no price would count as free",
            )
        if not currency.isalpha() or not currency.isascii():
            raise UsageError(
                f"prices: currency={currency!r} is no currency", hint='Give letters, as "USD"'
            )
        input_pico = _token_pico(input, "input")
        from agentrt.base.money import pico_of

        return cls(
            input_pico,
            input_pico if cached_input is None else _token_pico(cached_input, "cached_input"),
            _token_pico(output, "output"),
            0 if device_second is None else pico_of(device_second, "prices: device_second"),
            currency.upper(),
        )

    def tokens_pico(self, prompt_tokens: int, cached_tokens: int, output_tokens: int) -> int:
        """Cost of tokens; the cached ones are part of the prompt."""
        cached_tokens = min(cached_tokens, prompt_tokens)
        return (
            (prompt_tokens - cached_tokens) * self.input_pico
            + cached_tokens * self.cached_input_pico
            + output_tokens * self.output_pico
        )

    def device_pico(self, device_s: float) -> int:
        """Cost of seconds of the engine, rounded up."""
        return -(-round(device_s * _NS_PER_S) * self.device_second_pico // _NS_PER_S)

    def most_pico(self, prompt_tokens: int, output_tokens: int, device_s: float = 0.0) -> int:
        """The most that a call can cost.

        Args:
            prompt_tokens: The most prompt tokens.
            output_tokens: The most output tokens.
            device_s: The most seconds of the engine.
        """
        dearest_pico = max(self.input_pico, self.cached_input_pico)
        tokens_pico = prompt_tokens * dearest_pico + output_tokens * self.output_pico
        return tokens_pico + self.device_pico(device_s)

    def or_dearer(self, other: Prices) -> Prices:
        """The higher price of each, for a call that either engine may serve.

        Raises:
            UsageError: The currencies differ.
        """
        check_currencies({self.currency, other.currency})
        return Prices(
            max(self.input_pico, other.input_pico),
            max(self.cached_input_pico, other.cached_input_pico),
            max(self.output_pico, other.output_pico),
            max(self.device_second_pico, other.device_second_pico),
            self.currency,
        )


def check_currencies(currencies: set[str]) -> None:
    """Check that amounts can be added.

    Raises:
        UsageError: There are several currencies.
    """
    if len(currencies) > 1:
        raise UsageError(
            f"prices: the engines have prices in {' and '.join(sorted(currencies))}",
            hint="Give the prices of all engines in one currency",
        )


def _token_pico(amount: Amount | None, name: str) -> int:
    if amount is None:
        return 0
    from agentrt.base.money import pico_of

    return pico_of(amount, f"prices: {name}", decimals=PRICE_DECIMALS) // _PER_MILLION
