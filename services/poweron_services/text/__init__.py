"""Rules about text: languages, numbers, quotes, sentences, citations, requested formats; pure functions."""
