"""What adapters cost: decode steps with none, with one and with several in a batch."""
