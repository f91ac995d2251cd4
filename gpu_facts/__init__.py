"""What is true outside: hardware, versions, names and limits of others, what known software puts on nodes."""
