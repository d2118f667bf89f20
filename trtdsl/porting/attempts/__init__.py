"""A module that is refused as it is given: what is changed of it and its inputs, by the cause of the refusal."""
