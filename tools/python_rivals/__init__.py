"""What tools/bench-python-rivals does: times prefill kernels that live in Python beside smla's.

shapes and lists say what is measured, measure how, card on what, rivals whom, command from where. Only card and rivals
know torch, so that the rest is tested without it.
"""
