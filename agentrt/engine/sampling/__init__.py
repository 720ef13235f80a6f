"""Sampling: grammar bitmasks, the sampler, and what a sampled token does to its sequence."""
