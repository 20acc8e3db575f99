"""The requests of the page: JSON unless said otherwise; everything is asked for by its number, never by a path."""
