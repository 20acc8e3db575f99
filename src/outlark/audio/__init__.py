"""Sound files and recorders: reading, resampling, framing, when and where a recording was made."""
