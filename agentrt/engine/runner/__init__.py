"""The forward pass of a step: model runner, CUDA graphs, scoring of options."""
