//! Throws bytes at every reader.

#![no_main]

mod readers;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| readers::read(bytes));
