"""One node: the instance behind it, its size, and how it registers."""
