"""Plain functions from tables in results/ to numbers with n and interval."""
