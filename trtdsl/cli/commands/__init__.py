"""One file for each command, or group of commands; every file here is on the command line."""
