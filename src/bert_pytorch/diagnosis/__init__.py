"""What is wrong with a text, a run, a checkpoint or a program, and the next command; behind the script `doctor.py`."""
