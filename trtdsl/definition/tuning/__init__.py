"""Which way each call of a network is lowered, and the file in which ``trtdsl build --tune`` writes that down."""
