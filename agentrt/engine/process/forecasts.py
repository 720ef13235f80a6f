"""Forecasts of the seconds that the phases of an engine's work take."""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.base.config import EngineConfig
from agentrt.base.gguf.checkpoint_files import weight_bytes

UNKNOWN_S = 15.0
"""Forecast of work without one: commands, and the first steps, which also compile."""

_LOAD_S = 30.0
_LOAD_BYTES_S = 200e6
"""Bytes of weights a second that even a slow disk gives."""

_SMOOTHING = 0.2
_MIN_STEPS = 5
"""Steps of a kind before its forecast counts; the first ones also compile and warm up."""


def load_forecast_s(config: EngineConfig) -> float:
    """Seconds in which the model, and a draft model, should load on a slow machine."""
    paths = [path for path in (config.model_path, config.draft_model) if path is not None]
    return _LOAD_S + sum(map(weight_bytes, paths)) / _LOAD_BYTES_S


@dataclass(slots=True)
class StepForecast:
    """Learned seconds of a decode step, and seconds of each prompt token beside it."""

    decode_s: float = 0.0
    token_s: float = 0.0
    _decodes: int = 0
    _prefills: int = 0

    def forecast_s(self, prefill_tokens: int) -> float:
        """Seconds of a step with so many prompt tokens."""
        if self._decodes < _MIN_STEPS or (prefill_tokens and self._prefills < _MIN_STEPS):
            return UNKNOWN_S
        return self.decode_s + self.token_s * prefill_tokens

    def note(self, prefill_tokens: int, seconds: float) -> None:
        """Learn from a step."""
        if prefill_tokens == 0:
            self._decodes += 1
            self.decode_s = _smooth(self.decode_s, seconds, self._decodes)
        else:
            self._prefills += 1
            each_s = max(0.0, seconds - self.decode_s) / prefill_tokens
            self.token_s = _smooth(self.token_s, each_s, self._prefills)


def _smooth(known: float, new: float, count: int) -> float:
    return new if count == 1 else known + _SMOOTHING * (new - known)
