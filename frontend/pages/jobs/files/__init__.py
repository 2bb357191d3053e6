"""Parts of the files tab; see README.md."""
