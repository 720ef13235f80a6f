"""The pace of a server: the time that its tokens take, learned from its answers.

A server divides its time among the requests that it computes, so the time of one answer says little
about the cost of its tokens. The time in which it has any request, however, is all spent on tokens
of its answers. A window of some answers gives one equation: busy time = prompt tokens times
`prefill_s` + output tokens times `decode_s`. Many windows, the newest with the most weight, give
both by least squares. Pure: instants are handed in.
"""

from __future__ import annotations

from agentrt.scheduler.placement.worker_load import TokenCosts

WINDOW_ANSWERS = 16
"""Answers of a window. The first ones are shorter, so that something is known early."""

KEPT_SHARE = 0.9
"""Weight of a window after the next one."""

OUTLIER = 4.0
"""Multiple of the expected time that counts of a window at most: a server may be halted."""

PULL = 0.1
"""Weight of the ratio of the first guess, in windows: it decides if all windows are alike."""

_LEAST_S = 1e-6
"""Work and time of a window: with less, products of them might vanish."""

_MOST_RATIO = 16.0
"""Factor by which the ratio of the two costs may differ from that of the first guess."""


class ServerPace:
    """The costs of tokens of one server.

    Attributes:
        costs: The costs.
        answers: Answers that have shown them.

    Args:
        guess: Costs before anything is known. Only their ratio counts after the first answer.

    Example:
        >>> pace = ServerPace(TokenCosts(0.001, 0.01))
        >>> pace.begin(100.0)
        >>> pace.end(104.0, prompt_tokens=1000.0, output_tokens=100.0)
        >>> round(pace.costs.prefill_s, 6), round(pace.costs.decode_s, 6)
        (0.002, 0.02)
    """

    def __init__(self, guess: TokenCosts) -> None:
        self.costs = guess
        self._guess = guess
        self._requests = 0
        self._read_at_s = 0.0
        self._windows = 0
        self.answers = 0
        # The open window: its time, its answers, and its work by the guess.
        self._open_answers = 0
        self._busy_s = self._prefill_s = self._decode_s = 0.0
        # Sums of products over closed windows.
        self._weight = 0.0
        self._pp = self._pd = self._dd = self._pt = self._dt = 0.0
        self._time_s = self._work_s = 0.0

    def begin(self, now_s: float) -> None:
        """Note a request that is sent to the server."""
        self._read(now_s)
        self._requests += 1

    def end(self, now_s: float, prompt_tokens: float, output_tokens: float) -> None:
        """Note an answer.

        Args:
            now_s: The instant.
            prompt_tokens: Tokens of its prompt that the server had to compute.
            output_tokens: Tokens of the output.
        """
        self._read(now_s)
        self._requests = max(0, self._requests - 1)
        self._prefill_s += self._guess.work_s(prompt_tokens, 0.0)
        self._decode_s += self._guess.work_s(0.0, output_tokens)
        self._open_answers += 1
        if self._open_answers >= min(WINDOW_ANSWERS, 2**self._windows):
            self._close_window()

    def fail(self, now_s: float) -> None:
        """Note the end of a request without an answer: what the server did for it is unknown."""
        self._read(now_s)
        self._requests = max(0, self._requests - 1)
        self._open_window()

    def _read(self, now_s: float) -> None:
        if self._requests:
            self._busy_s += max(0.0, now_s - self._read_at_s)
        self._read_at_s = max(self._read_at_s, now_s)

    def _open_window(self) -> None:
        self._busy_s = self._prefill_s = self._decode_s = 0.0
        self._open_answers = 0

    def _close_window(self) -> None:
        prefill_s, decode_s, time_s = self._prefill_s, self._decode_s, self._busy_s
        if min(prefill_s + decode_s, time_s) < _LEAST_S:
            return  # it goes on until there is something to learn
        guess, costs = self._guess, self.costs
        if self._windows:
            expected_s = (
                prefill_s * costs.prefill_s / guess.prefill_s
                + decode_s * costs.decode_s / guess.decode_s
            )
            time_s = min(max(time_s, expected_s / OUTLIER), expected_s * OUTLIER)
        sums = (self._weight, self._pp, self._pd, self._dd, self._pt, self._dt)
        new = (
            *(1.0, prefill_s * prefill_s, prefill_s * decode_s, decode_s * decode_s),
            *(prefill_s * time_s, decode_s * time_s),
        )
        self._weight, self._pp, self._pd, self._dd, self._pt, self._dt = (
            KEPT_SHARE * old + one for old, one in zip(sums, new, strict=True)
        )
        self._time_s = KEPT_SHARE * self._time_s + time_s
        self._work_s = KEPT_SHARE * self._work_s + prefill_s + decode_s
        self._windows += 1
        self.answers += self._open_answers
        self._open_window()
        self.costs = self._solved()

    def _solved(self) -> TokenCosts:
        """Least squares, drawn to the ratio of the guess as by a small part of a window."""
        scale = self._time_s / self._work_s
        pull = PULL * (self._pp + 2 * self._pd + self._dd) / self._weight
        pp, dd, pd = self._pp + pull, self._dd + pull, self._pd
        pt, dt = self._pt + pull * scale, self._dt + pull * scale
        inverse = 1 / (pp * dd - pd * pd)  # above 0: `pull` is, and pp * dd >= pd * pd without it
        factors = ((pt * dd - dt * pd) * inverse, (dt * pp - pt * pd) * inverse)
        prefill, decode = (
            min(max(one, scale / _MOST_RATIO), scale * _MOST_RATIO) for one in factors
        )
        return TokenCosts(self._guess.prefill_s * prefill, self._guess.decode_s * decode)
