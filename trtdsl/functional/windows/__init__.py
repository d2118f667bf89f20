"""Convolution, pooling and what slides a window."""
