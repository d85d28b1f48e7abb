//! Signatures and their verification by the algorithms of DNSSEC, and SipHash, by which servers put names and clients into tables.

use crate::system::each;
use crate::{Bench, Measured, Point, on_first_core};
use measure::metrics::OPERATION_TIME;
use std::hash::Hasher;
use std::hint::black_box;
use std::time::Duration;
use zone::sign::{Algorithm, speed};

/// For how long each is measured.
const TIME: Duration = Duration::from_millis(100);

/// Algorithms, and the bits of RSA's keys: a ZSK of the root has 2,048, RZAIA's had 1,024.
const ALGORITHMS: [(Algorithm, u32); 5] = [
    (Algorithm::RsaSha256, 1024),
    (Algorithm::RsaSha256, 2048),
    (Algorithm::EcdsaP256Sha256, 0),
    (Algorithm::EcdsaP384Sha384, 0),
    (Algorithm::Ed25519, 0),
];

/// On one core.
pub(crate) fn operations(bench: &Bench<'_>) -> Measured {
    on_first_core(bench, "signatures", |measured| {
        for (algorithm, bits) in ALGORITHMS {
            let name = if bits > 0 { format!("{algorithm}, {bits} bits") } else { algorithm.to_string() };
            match speed(algorithm, bits, TIME) {
                Ok((sign, verify)) => measured.points.extend([
                    Point::new(format!("{name}: a signature"), OPERATION_TIME, sign),
                    Point::new(format!("{name}: a verification"), OPERATION_TIME, verify),
                ]),
                Err(why) => measured.left_out.push(format!("{name}: {why}")),
            }
        }
        measured.points.push(Point::new("SipHash-2-4 of 32 octets", OPERATION_TIME, siphash()));
    })
}

fn siphash() -> f64 {
    let name = [7_u8; 32];
    each(500_000, || {
        // The standard library has no other SipHash-2-4; its default is SipHash-1-3.
        #[allow(deprecated)]
        let mut hasher = std::hash::SipHasher::new_with_keys(1, 2);
        hasher.write(black_box(&name));
        black_box(hasher.finish());
    })
}
