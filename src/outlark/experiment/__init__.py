"""Layer 4: the experiment of the paper, on notes that anyone can make."""
