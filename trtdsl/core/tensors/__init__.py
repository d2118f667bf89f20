"""Tensors of torch: their memory, which layers are given, and their values without rounding."""
