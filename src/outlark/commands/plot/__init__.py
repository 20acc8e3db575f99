"""`outlark plot`: figures of recordings and decisions."""
