"""Notes and recordings to try outlark on: synthetic notes, demo recordings, songs of great tits."""
