"""`outlark inspect`: what is in a file."""
