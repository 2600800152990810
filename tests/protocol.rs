//! The bytes of the protocol, from outside: golden vectors in both directions, properties, and hostile bytes.

mod wire {
    mod go;
    mod hostile;
    mod native;
    mod properties;
    mod python;
    mod vectors;
}
