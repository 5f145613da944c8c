"""Raw events become checked interactions here: ids, cuts, splits and the file format.

Everything runs on NumPy and SciPy alone. Readers of files that others wrote are in `spherec.data.read`; they import
polars when they read.
"""
