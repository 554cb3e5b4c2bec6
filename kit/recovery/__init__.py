"""What brings hosts back to how they were: the journal, the undo of each kind, `hsp clean`.

What is made, and when it is undone in an ordinary run, is in kit.run.
"""
