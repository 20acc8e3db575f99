"""`outlark listen`: sound while it is recorded."""
