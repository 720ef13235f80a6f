"""A run as a tree of its nodes: from its events, its record or its trace, drawn by one renderer."""
