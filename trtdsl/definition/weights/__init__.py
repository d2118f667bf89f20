"""Weights by state_dict name: their files, what a network takes of them, and conversion."""
