"""scikit-learn estimators around `outlark.maths`."""
