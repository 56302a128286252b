"""Fine-tuning: labelled data to features, models with heads, two engines, metrics, and what is told of the result."""
