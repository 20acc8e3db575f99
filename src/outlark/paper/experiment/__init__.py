"""The experiment of the paper: protocol, methods to compare, Tables 1 and 2, Figure 1, report."""
