"""The forward pass of a step on its device."""
