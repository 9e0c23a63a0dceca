"""Building blocks of the lenses: probes, trees, prisms, pairs, intervals."""
