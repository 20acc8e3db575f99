"""Files of all kinds: written atomically, checked before reading, at paths or URLs."""
