"""All reads of the database that are limited to what one user may see."""
