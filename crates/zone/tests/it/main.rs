//! The zone room against files, real zones and independent judges.

mod generate;
mod scan;
mod sign;
mod support;
