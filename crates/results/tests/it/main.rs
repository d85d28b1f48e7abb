//! The results room from outside: run directories on disk, published tables against themselves.

mod compare;
mod findings;
mod published;
mod rundir;
