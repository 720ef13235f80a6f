"""A runtime for agent programs."""

__all__: list[str] = []
