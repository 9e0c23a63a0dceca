"""The account of the paper: claims as TOML, measures over results/, and the page they make."""
