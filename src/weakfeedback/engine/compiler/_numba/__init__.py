"""The only place for inner parts of Numba, llvmlite and NumPy: modules and names that they do not promise to keep."""
