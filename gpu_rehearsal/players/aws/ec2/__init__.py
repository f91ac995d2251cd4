"""EC2 beyond moto: launches, fleets, capacity, images, networks and interruptions."""
