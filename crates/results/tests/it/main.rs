//! The results room from outside: run directories on disk, published tables against themselves.

mod published;
mod rundir;
