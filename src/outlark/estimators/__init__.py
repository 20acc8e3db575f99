"""Layer 1: thin scikit-learn estimators around `outlark.maths`."""
