//! Fuzz targets, one per reader of untrusted files. A target takes arbitrary bytes and must return: no panic,
//! no endless loop, no excessive allocation. Printed values must parse back to the same value.

#![forbid(unsafe_code)]

#[cfg(test)]
mod corpus;
mod readers;

use std::{env, fs, process::ExitCode};

pub use readers::{
    bytecode, facts, hlo, kernel_body, llo, manifest, mosaic, ptx, safetensors, sass, stablehlo, tables,
};

/// A fuzz target. Returns whether the input was accepted and processed to the end.
pub type Target = fn(&[u8]) -> bool;

/// Every target, by the name of its binary and corpus folder.
pub const TARGETS: [(&str, Target); 12] = [
    ("bytecode", bytecode),
    ("facts", facts),
    ("hlo", hlo),
    ("kernel_body", kernel_body),
    ("llo", llo),
    ("manifest", manifest),
    ("mosaic", mosaic),
    ("ptx", ptx),
    ("safetensors", safetensors),
    ("sass", sass),
    ("stablehlo", stablehlo),
    ("tables", tables),
];

/// Defines `main` of a target's binary: libFuzzer's when fuzzing, otherwise one that reads the named files.
#[macro_export]
macro_rules! target {
    ($name:ident) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
            $crate::$name(bytes);
        });

        #[cfg(not(fuzzing))]
        fn main() -> std::process::ExitCode {
            $crate::read_files($crate::$name)
        }
    };
}

/// Runs a target on the files named on the command line, to reproduce a finding without libFuzzer.
pub fn read_files(target: Target) -> ExitCode {
    for path in env::args_os().skip(1) {
        match fs::read(&path).map(|bytes| target(&bytes)) {
            Ok(true) => println!("{}: accepted", path.display()),
            Ok(false) => println!("{}: rejected", path.display()),
            Err(error) => {
                eprintln!("cannot read {}: {error}", path.display());
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::SUCCESS
}
