"""EC2 beyond moto: launches of every kind, what capacity is left, reservations, images and interruptions."""
