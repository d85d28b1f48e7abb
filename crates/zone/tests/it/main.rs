//! The zone room against files, real zones and independent judges.

mod generate;
mod info;
mod scan;
mod sign;
mod sort;
mod support;
