"""`outlark doctor`: what a model would get wrong."""
