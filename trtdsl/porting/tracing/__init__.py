"""A torch module is run at several sizes, and its calls are written down."""
