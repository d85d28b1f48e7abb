//! The rack on this machine. Confinement needs a process without threads, which a test never is: the tests
//! start the example program `confined`, which cargo builds beside them.

mod confine;
mod confined;
mod disk;
mod durable;
mod launch;
mod paths;
mod syncs;
