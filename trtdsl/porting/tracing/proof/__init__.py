"""Proofs that comparisons of sizes, such as ``h % 32 == 0``, have the same result at all sizes as in the trace.

The trace is executed once more with symbolic sizes: its statements, by trtdsl's own functions, so that each size that
the module compared is an expression of the inputs' dimensions. Comparisons of whole numbers are then decided by the
algebra of sizes, those of fractions by trying every value. Where a comparison has another result, the module is traced
there too: another path gives the same program, or is another way that the module goes (ways/).
"""
