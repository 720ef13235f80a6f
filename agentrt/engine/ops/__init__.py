"""Operations of a forward pass: attention, linear layers, the choice of kernels and threads."""
