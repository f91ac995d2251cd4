"""Which pods go to which nodes."""
