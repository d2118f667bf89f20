"""The command line: one file for each command in commands/. It has no logic of its own."""
