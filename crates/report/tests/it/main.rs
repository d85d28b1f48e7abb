//! The report from outside: a made-up run, its tables on the terminal, its page.

mod batches;
mod decisions;
mod durable;
mod fixture;
mod page;
mod tables;
