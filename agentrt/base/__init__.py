"""What everything stands on: errors, ids, clock, configuration, plain values."""
