"""`outlark doctor`: mistakes that a model is likely to make."""
