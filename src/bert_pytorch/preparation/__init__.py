"""From documents to checked pairs: what the scripts of the sub-skill data-preparation do. It needs no torch."""
