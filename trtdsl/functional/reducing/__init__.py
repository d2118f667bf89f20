"""Reductions, statistics, normalization, sorting and cumulative sums."""
