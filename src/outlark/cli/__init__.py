"""Layer 5: the command line. One module for each verb; nothing is imported before its verb is called."""
