//! Any text as the arguments of a call that is sent from the command line.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| delayed_fuzz::run("json", input));
