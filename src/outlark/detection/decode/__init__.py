"""Decoders: from class scores to segments."""
