//! Any bytes as the arguments of tasks.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| delayed_fuzz::run("arguments", input));
