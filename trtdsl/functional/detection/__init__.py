"""Functions for detectors, with torchvision's names and meaning."""
