"""Whether a set of kernels is right on this machine, and how fast: facts, no verdict."""
