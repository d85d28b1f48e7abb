//! The zone room against files, real zones and independent checkers.

mod denial;
mod diff;
mod facts;
mod generate;
mod info;
mod profile;
mod scan;
mod sign;
mod slice;
mod sort;
mod support;
