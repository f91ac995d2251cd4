"""What reaches what, EFA included."""
