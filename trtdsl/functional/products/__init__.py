"""Matrix products, attention, and the folding of scales into weights."""
