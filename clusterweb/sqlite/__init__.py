"""Django's SQLite backend, whose writers stand in line."""
