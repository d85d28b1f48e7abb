//! Experiment file + what is done -> next trial -> run directory; the catalogue.
