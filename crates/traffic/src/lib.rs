//! Traffic profiles, name lists and the query source.
