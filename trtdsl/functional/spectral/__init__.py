"""Complex numbers as pairs of Tensors, and Fourier transforms."""
