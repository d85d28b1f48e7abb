//! Tests of `net` against the kernel: two network namespaces joined by a veth pair.

mod pair;
mod xdp;
