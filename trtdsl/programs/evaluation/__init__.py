"""Evaluates an engine's program on the CPU: from the plan's bytes alone, in the memory that the plan lays out."""
