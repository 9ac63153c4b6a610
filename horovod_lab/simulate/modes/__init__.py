"""The modes in the simulation, each in the file of its name; model.py puts them together."""
