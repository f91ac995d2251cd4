"""AWS as far as a stack and its programs ask it: moto's server, what it lacks, and who may call what."""
