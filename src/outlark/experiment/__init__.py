"""The experiment of the paper, on notes that anyone can make."""
