"""Published latency ranges: what they were measured on, and which of them may stand beside a run.

No verdict is made here.
"""
