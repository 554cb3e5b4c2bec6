"""The verdict of a run and what it rests on: expectations, stalls, power loss, what an appliance hides.

Nothing is drawn here.
"""
