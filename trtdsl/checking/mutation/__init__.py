"""Networks with one small change, and whether a check sees it."""
