"""Whether a network equals its torch reference: feeds, comparison, and where the two first differ."""
