"""The mistakes, a module for each family of them."""
