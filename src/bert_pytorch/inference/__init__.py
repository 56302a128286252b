"""A trained model at work: words for masks, vectors of texts, scores of lines, nearest lines."""
