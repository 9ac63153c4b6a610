"""Prints what planned_response.cc says of each case that standard input has as a JSON list:
respond.py FRAMEWORK LIBRARY, in a process of its own."""

import ctypes
import importlib
import json
import sys

framework, library = sys.argv[1:]
importlib.import_module(f"horovod.{framework}")  # loads the library that ours is linked with
planned_responses = ctypes.CDLL(library).planned_responses
planned_responses.restype, planned_responses.argtypes = ctypes.c_char_p, [ctypes.c_char_p]
print(json.dumps([planned_responses(case.encode()).decode() for case in json.load(sys.stdin)]))
