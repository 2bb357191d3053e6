"""Files that jobs wrote; see README.md."""
