"""The task: sequences of actions, and the state after each.

Import from the modules: `sequences` needs only numpy, the others need torch.
"""
