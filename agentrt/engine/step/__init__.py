"""The steps of the engine: launched, sampled and completed, or scored."""
