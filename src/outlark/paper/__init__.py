"""The system as published."""
