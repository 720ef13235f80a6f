"""One sequence in the engine: tokens, grammar state, reasoning, stop strings, metrics."""
