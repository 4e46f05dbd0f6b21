"""Times learning steps, and measures what contexts do for the teacher."""
