"""One program of the ways that a module goes, by sizes and by values."""
