"""What people do with recordings, tables and models, apart from the command line that does it."""
