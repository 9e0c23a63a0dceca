"""The reproduction of the paper: claims as TOML, measures over results/, and REPRODUCTION.md."""
