"""What detectors need, with torchvision's names and meaning."""
