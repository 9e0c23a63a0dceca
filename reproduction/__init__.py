"""The paper's claims, each beside what results/ says of it: REPRODUCTION.md is built here."""
