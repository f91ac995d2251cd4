"""Values that say what a pool of GPU nodes is. They know no AWS library."""
