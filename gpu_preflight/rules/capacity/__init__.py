"""Whether EC2 has, and sells, what a pool asks for."""
