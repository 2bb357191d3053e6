"""Writes. Every change of a model goes through a function in here, named ``<entity>_<action>``."""
