"""Functions of one element each: activations, arithmetic, comparisons, rounding, dtypes."""
