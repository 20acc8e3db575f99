"""Many recordings in one run, which can be killed at any moment and resumes where it was."""
