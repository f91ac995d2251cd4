"""What a second deployment of a changed app does to what the first one created."""
