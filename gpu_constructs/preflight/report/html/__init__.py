"""The page for browsers."""
