"""Layer 4: many recordings, in a run that can be killed at any moment and goes on where it was."""
