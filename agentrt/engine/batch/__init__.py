"""The batch of a step and its packed inputs."""
