"""Measures: plain functions from tables to a Number; claims name them as "FILE.FUNCTION".

Three kinds, by what the first argument is: `each` measures one model with lens results, `together`
a list of such models, `rows` rows of the models table. Further arguments come from the claim.
"""
