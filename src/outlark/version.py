"""The version of outlark: the one place where it is written."""

__version__ = "0.1.0"
