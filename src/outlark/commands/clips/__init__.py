"""`outlark clips`: excerpts of recordings as files."""
