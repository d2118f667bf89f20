"""Execution contexts, their memory, and where the outputs of a run go."""
