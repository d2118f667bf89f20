"""Functions that make tensors, reshape, join and arrange them."""
