"""`outlark summary`: a season of results, counted."""
