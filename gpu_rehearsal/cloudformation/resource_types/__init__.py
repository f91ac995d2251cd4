"""Resource types, each with the calls that create, update and delete a resource."""
