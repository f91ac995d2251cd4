"""Plain facts about the hardware EC2 sells. Knows no AWS library."""
