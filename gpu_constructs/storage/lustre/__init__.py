"""File systems of FSx for Lustre, and how pods mount them."""
