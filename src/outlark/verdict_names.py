"""The names of verdicts, in a module without imports so that the command line starts fast."""

KNOWN, AMBIGUOUS, UNKNOWN, SILENCE = "known", "ambiguous", "unknown", "silence"
VERDICTS = (KNOWN, AMBIGUOUS, UNKNOWN, SILENCE)
#: The class name of sounds that belong to no class, in tables.
REST = "(unknown)"
