//! The zone room against files, real zones and independent judges.

mod scan;
mod support;
