"""Opening of a server: its model, its capabilities, and where they are kept."""
