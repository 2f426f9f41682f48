"""An OpenAI-compatible proxy whose model is a learner: it finds out which upstream model suffices, without labels."""
