"""What each command does, without the command line; each returns a `Result` (`outlark.plain_text`)."""
