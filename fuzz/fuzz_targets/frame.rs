//! Any bytes as what worker, zygote and child say to each other.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| delayed_fuzz::run("frame", input));
