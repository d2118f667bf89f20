"""Files: their names, reading them, writing them."""
