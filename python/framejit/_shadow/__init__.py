"""Two runs of one program compared: what each did, as lines of text, and the way back to the state before.

`framejit.testing` and the project's own tests compare with it. Nothing here is part of the public interface.
"""
