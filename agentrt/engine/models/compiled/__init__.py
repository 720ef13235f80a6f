"""Compiled models: weights in the order in which the CPU kernels read them."""
