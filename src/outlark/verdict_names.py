"""The words for verdicts, apart from everything else so that a program may know them without the numbers behind."""

KNOWN, AMBIGUOUS, UNKNOWN, SILENCE = "known", "ambiguous", "unknown", "silence"
#: What stands for the class of a sound that is of none, in tables of classes.
REST = "(unknown)"
