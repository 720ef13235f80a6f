"""Decoders that the engine computes itself, written once over kernels."""
