"""The pictures of REPRODUCTION.md, drawn from results/."""
