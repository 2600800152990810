//! Any bytes as a text, as long as was asked for.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| delayed_fuzz::run("describe", input));
