"""Models that judge: drafting a goal's specification from a sentence, and answering its questions."""
