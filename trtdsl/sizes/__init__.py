"""Sizes of dimensions: their arithmetic, proofs about them, their ranges, and what a network requires of them."""
