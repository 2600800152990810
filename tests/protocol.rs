//! The bytes of the protocol, from outside: golden vectors in both directions, properties, and hostile bytes.
#![allow(clippy::unwrap_used, reason = "helpers of tests may die as tests do")]

mod wire {
    mod flows;
    mod go;
    mod hostile;
    mod ids;
    mod native;
    mod periodic;
    mod properties;
    mod python;
    mod types;
    mod vectors;
}
