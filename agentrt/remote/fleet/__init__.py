"""A fleet: several servers as one engine, with one queue before them all."""
