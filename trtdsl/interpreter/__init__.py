"""Evaluating a network definition on the CPU as TensorRT documents its layers, and reading one back."""
