"""`outlark clips`: annotated notes as sound files."""
