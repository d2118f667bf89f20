"""Loops of forward's over a dimension as one call, :class:`Scan`, whatever the dimension's size.

Where forward goes over ``range`` of a size, or over the parts of ``unbind``, a trace has the calls of all rounds, with
marks between them. They are a scan where the rounds make the same calls, of values from before the loop, of values of
the round before, and of one part after the other of a tensor; and where what is needed afterwards is of the last round,
or of all in a list that is stacked or joined, or written part by part into one tensor. Other loops stay as they are: as
many rounds as there are, which is a condition on the size.

Where forward takes a tensor apart, computes the same of all pieces and joins what that gives, and each call computes
each place of the dimension alone, it is one call of the whole (wholes.py).
"""
