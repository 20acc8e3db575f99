"""Layer 0: the paper's equations as pure functions (NumPy and SciPy only)."""
