"""Auto Scaling groups whose instances come and go, zone by zone and type by type, and fail as EC2 lets them."""
