"""What tools/gen_ops.py is made of: entries of graph/ops/*.yaml read and checked, and what is generated from them."""
