"""`outlark train`: from examples to a model."""
