"""Which value each tensor is, and the calls of torch that a module makes, while it runs."""
