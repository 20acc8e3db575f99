"""Files of all kinds: written atomically, checked before they are read, at paths or URLs."""
