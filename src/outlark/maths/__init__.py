"""The equations of the paper, and what they need, as pure functions of arrays."""
