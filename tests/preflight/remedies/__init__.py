"""What would make Pending pods run, compared with what an expert does."""
