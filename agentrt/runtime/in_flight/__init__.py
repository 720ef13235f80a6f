"""A request in flight and the readers of its output."""
