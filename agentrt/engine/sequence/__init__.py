"""One sequence in the engine: tokens, grammar state, stop strings, metrics."""
