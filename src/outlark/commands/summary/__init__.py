"""`outlark summary`: notes per hour of recording."""
