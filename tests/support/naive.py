"""Networks in which F.silu after a linear product is not lowered in its best way: what tuning has to find."""

# The end of a network's file that processes of their own read.
FILE_END = """
import trtdsl.functional.pointwise.activation as activation

activation.silu_of = lambda x: "sigmoid"
"""
