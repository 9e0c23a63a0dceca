"""From a recipe to a trained model: objective, loop, checkpoints."""
