//! Any bytes as a message.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| delayed_fuzz::run("message", input));
