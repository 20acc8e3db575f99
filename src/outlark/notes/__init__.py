"""Layer 2: audio, time and labels."""
