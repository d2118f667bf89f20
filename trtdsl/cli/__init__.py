"""The command line: one file for each group of commands. It has no logic of its own."""
