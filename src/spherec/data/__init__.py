"""From raw events to checked interactions: ids, cuts, splits and the file format.

Everything here runs on NumPy and SciPy alone; what reads foreign files lives in `spherec.data.readers`, with polars.
"""
