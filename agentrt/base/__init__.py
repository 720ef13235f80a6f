"""The lowest floor: errors, ids, clock, configuration, plain values."""
