"""`hsp doctor`: whether a testbed can be measured on, and what would make its numbers wrong.

A check is judged from facts that were read; nothing here changes a host.
"""
