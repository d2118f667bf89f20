"""What a network's outputs are compared with, and what counts as equal."""
