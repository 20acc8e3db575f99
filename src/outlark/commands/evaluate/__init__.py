"""`outlark evaluate`: found against truth."""
