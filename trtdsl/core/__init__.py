"""What every room stands on: errors and exit codes, TensorRT backends, dtypes, files written whole or not at all."""
