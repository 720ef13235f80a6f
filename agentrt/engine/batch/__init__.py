"""The input batch of a forward: packed rows, slot mapping, shared prefixes."""
