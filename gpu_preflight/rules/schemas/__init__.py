"""Fields that the schema of their own service does not take."""
