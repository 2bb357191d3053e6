"""Sentences of the feed by what they are about; see ``README.md``."""
