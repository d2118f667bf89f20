"""The network being written: Network, Tensor, the author's call, precision, weights, network files."""
