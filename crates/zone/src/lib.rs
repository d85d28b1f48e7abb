//! Zone families, streaming generator, scanner, signer and facts.
