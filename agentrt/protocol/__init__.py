"""The contracts between runtime and engines: plain frozen values, and how they travel."""
