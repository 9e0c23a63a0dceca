"""Many runs: a grid of recipes, the engines that train them, and one table of results."""
