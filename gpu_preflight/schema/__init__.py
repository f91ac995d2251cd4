"""Values against the schemas of the services that take them."""
