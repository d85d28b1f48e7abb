//! One file per name server: configuration, start, control, capabilities; readiness is generic.
