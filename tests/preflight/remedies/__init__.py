"""The fixes that make Pending pods run, compared with an expert's fixes."""
