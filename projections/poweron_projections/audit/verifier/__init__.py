"""What an auditor runs: the checks of a bundle, in plain Python with nothing but the standard library.

`verify_script.py` joins these modules, and those of the tree and of notes, to the one file `verify.py` that every
bundle contains.
"""
