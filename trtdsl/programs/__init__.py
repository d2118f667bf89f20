"""The program that an engine runs on the GPU, read from the text of its plan."""
