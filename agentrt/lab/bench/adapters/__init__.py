"""Cost of adapters: decode steps with none, with one and with several in a batch."""
