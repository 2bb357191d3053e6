"""Files of jobs over REST; see README.md."""
