"""The network being written: Network, Tensor, sizes, the author's call, precision, weights, network files."""
