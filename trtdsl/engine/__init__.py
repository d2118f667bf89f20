"""Engines: made from a network, examined before TensorRT reads them, loaded, and run on arrays of any library."""
