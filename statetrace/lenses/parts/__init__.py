"""What the lenses are made of: probes, trees, prisms, pairs, intervals."""
