//! How fast one core signs and verifies.

use super::key::{Algorithm, Key, failed};
use super::verify::{Verification, verify_with};
use crate::error::Error;
use aws_lc_rs::rand::SystemRandom;
use std::time::{Duration, Instant};

/// About what is signed of an NSEC record, in octets.
const DATA: [u8; 100] = [7; 100];

/// Nanoseconds that a signature takes, and its verification, with a new key on the calling thread; each is measured for `time`. `bits` counts
/// for RSA only.
///
/// # Errors
/// A key that cannot be made, or does not sign.
pub fn speed(algorithm: Algorithm, bits: u32, time: Duration) -> Result<(f64, f64), Error> {
    let (key, random, mut signature) =
        (Key::generate(algorithm, bits, false)?, SystemRandom::new(), Vec::new());
    let sign = timed(time, || {
        signature.clear();
        key.sign(&DATA, &random, &mut signature)
    })?;
    let verify =
        timed(time, || match verify_with(algorithm.number(), &key.dnskey[4..], &DATA, &signature) {
            Verification::Valid => Ok(()),
            _ => Err(failed("it does not verify what it signed")),
        })?;
    Ok((sign, verify))
}

/// Nanoseconds of each call.
fn timed(time: Duration, mut call: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let (began, mut count) = (Instant::now(), 0_u32);
    while began.elapsed() < time || count == 0 {
        for _ in 0..8 {
            call()?;
        }
        count += 8;
    }
    Ok(began.elapsed().as_nanos() as f64 / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_signs_and_verifies() {
        for algorithm in Algorithm::ALL {
            let (sign, verify) = speed(algorithm, 1024, Duration::ZERO).unwrap();
            assert!(sign > 0.0 && verify > 0.0, "{algorithm}");
        }
        assert!(speed(Algorithm::RsaSha256, 64, Duration::ZERO).is_err());
    }
}
