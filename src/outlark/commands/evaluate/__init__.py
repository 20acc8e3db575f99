"""`outlark evaluate`: detections against the truth."""
