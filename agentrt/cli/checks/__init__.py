"""The checks of `agentrt check`, each a function from a program to findings."""
