"""Tables and pictures made from run folders, and from nothing else."""
