"""Sampling at coordinates: grid_sample, interpolate and what they are made of."""
