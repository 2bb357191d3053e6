"""Valid rows for tests."""
