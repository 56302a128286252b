"""The rules that `check_bundle.py` holds a bundle to, by subject."""
