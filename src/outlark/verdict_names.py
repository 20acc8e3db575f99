"""The words for verdicts, apart from everything else so that a program may know them without the numbers behind."""

KNOWN, AMBIGUOUS, UNKNOWN, SILENCE = "known", "ambiguous", "unknown", "silence"
