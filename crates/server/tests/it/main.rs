//! Server drivers with the real servers, on loopback ports, with small zones made here.
//!
//! A test whose server is not installed says SKIPPED on standard error and passes.

/// Makes a module of tests, one a kind, of each function named.
macro_rules! for_each_server {
    ($($test:ident),* $(,)?) => { $(
        mod $test {
            #[test]
            fn bind() {
                crate::lab::with(server::Kind::BIND, super::$test);
            }
            #[test]
            fn nsd() {
                crate::lab::with(server::Kind::NSD, super::$test);
            }
            #[test]
            fn knot() {
                crate::lab::with(server::Kind::KNOT, super::$test);
            }
            #[test]
            fn powerdns() {
                crate::lab::with(server::Kind::POWERDNS, super::$test);
            }
            #[test]
            fn yadifa() {
                crate::lab::with(server::Kind::YADIFA, super::$test);
            }
        }
    )* };
}

mod checked;
mod configurations;
mod distributed;
mod external;
mod faults;
mod hosts;
mod lab;
mod life;
mod rootless;
mod roots;
mod signed;
mod signing;
mod validated;
