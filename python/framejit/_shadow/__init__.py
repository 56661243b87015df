"""Two runs of one program compared: what each did, as lines of text, and the way back to the state before.

`framejit.testing`, FRAMEJIT_SHADOW and the project's own tests compare with it. Nothing here is public.
"""
