"""A network and its program as one page that a browser opens without a network connection."""
