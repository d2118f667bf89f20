"""All that a comparison allows: how far the meaning and the quality of an output may be off."""

# In exact arithmetic:
LIMIT = 1e-9  # of an element
LEAST = 1e-3  # times that of the typical element, where an element is small or 0
ROUNDED = 1e-5  # of an element, where some operator has no float64
NOISY = 30.0  # times what noise of 2**-52 (2**-24 of rounded constants) in every value makes of the reference's result
RUNS = 8  # with such noise: what decides at random decides alike in all of them once in 128 times
CHAOTIC = 1e-6  # of the typical element: where noise excuses more, little is proven
# In a precision:
FLOORS = {"float64": 1e-12, "float32": 1e-5, "float16": 1e-2, "bfloat16": 5e-2, "float8_e4m3fn": 0.3}  # of each row
COARSE = 1e-4  # of a row, where float32 stands for exact arithmetic
TYPICAL = 30.0  # times torch's typical error in a row, which it may have in any of them
SENSITIVE = 3.0  # times what noise of the precision makes of the reference's result
FLIPPED = 0.02  # the part of integers and bools that half precision may decide otherwise
ROUGH = 1e-2  # of an output's scale: where torch's own error is larger, an equal result proves little
UNREPEATED = 1e-3  # of an output's scale: what two runs of a reference with the same inputs may differ by
