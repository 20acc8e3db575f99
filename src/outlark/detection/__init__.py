"""From examples to a detector, and from recordings to labelled segments."""
