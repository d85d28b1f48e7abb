//! Signatures a second of one core: the libraries at hand side by side, for each algorithm. The signer uses the
//! fastest of them; these figures are what its own rate is held against.
//!
//! `cargo bench -p dnsrack-zone --bench kernels`

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use std::hint::black_box;

/// About what is signed of an NSEC record.
const DATA: [u8; 100] = [7; 100];

fn openssl(c: &mut Criterion, name: &str, hash: Option<MessageDigest>, key: &PKey<Private>) {
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(1));
    group.bench_function("openssl", |b| {
        b.iter(|| {
            let mut signer = match hash {
                Some(hash) => openssl::sign::Signer::new(hash, key),
                None => openssl::sign::Signer::new_without_digest(key),
            }
            .expect("a key");
            black_box(signer.sign_oneshot_to_vec(&DATA).expect("a signature"))
        });
    });
}

fn aws(c: &mut Criterion, name: &str, mut sign: impl FnMut()) {
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(1));
    group.bench_function("aws-lc-rs", |b| b.iter(&mut sign));
}

fn kernels(c: &mut Criterion) {
    let random = SystemRandom::new();
    for (name, algorithm, curve, hash) in [
        ("P-256", &ECDSA_P256_SHA256_FIXED_SIGNING, Nid::X9_62_PRIME256V1, MessageDigest::sha256()),
        ("P-384", &ECDSA_P384_SHA384_FIXED_SIGNING, Nid::SECP384R1, MessageDigest::sha384()),
    ] {
        let key = EcdsaKeyPair::generate(algorithm).expect("a key");
        aws(c, name, || {
            black_box(key.sign(&random, &DATA).expect("a signature"));
        });
        let group = EcGroup::from_curve_name(curve).expect("a curve");
        let key = EcKey::generate(&group).and_then(PKey::from_ec_key).expect("a key");
        openssl(c, name, Some(hash), &key);
    }
    let key = Ed25519KeyPair::generate().expect("a key");
    aws(c, "Ed25519", || {
        black_box(key.sign(&DATA));
    });
    openssl(c, "Ed25519", None, &PKey::generate_ed25519().expect("a key"));
    for bits in [1024, 1536, 2048, 3072, 4096] {
        let rsa = Rsa::generate(bits).expect("a key");
        let name = format!("RSA-{bits}");
        if let Ok(key) = RsaKeyPair::from_der(&rsa.private_key_to_der().expect("DER")) {
            let mut signature = vec![0; key.public_modulus_len()];
            aws(c, &name, || {
                key.sign(&RSA_PKCS1_SHA256, &random, &DATA, &mut signature).expect("a signature");
            });
        }
        openssl(c, &name, Some(MessageDigest::sha256()), &PKey::from_rsa(rsa).expect("a key"));
    }
}

criterion_group!(benches, kernels);
criterion_main!(benches);
