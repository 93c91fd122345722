//! One function per reader of foreign files, which takes arbitrary bytes and must come back: no panic, no endless
//! loop, no allocation out of proportion. What a reader prints must read back as the same value.

#![forbid(unsafe_code)]

#[cfg(test)]
mod corpus;
mod readers;

use std::{env, fs, process::ExitCode};

pub use readers::{
    facts, hlo, kernel_body, llo, manifest, mosaic, ptx, safetensors, sass, stablehlo, tables,
};

/// A fuzz target: takes any bytes, and says whether they got through all that it does instead of being refused.
pub type Target = fn(&[u8]) -> bool;

/// Every target with its name, which is also that of its binary and of its folder in the corpus.
pub const TARGETS: [(&str, Target); 11] = [
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

/// The `main` of a target's binary: libFuzzer's in a build for fuzzing, else one that reads the files it is given.
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

/// Puts the files named on the command line to a target, to see what an input does without libFuzzer.
pub fn read_files(target: Target) -> ExitCode {
    for path in env::args_os().skip(1) {
        match fs::read(&path).map(|bytes| target(&bytes)) {
            Ok(true) => println!("{}: read to its end", path.display()),
            Ok(false) => println!("{}: refused", path.display()),
            Err(error) => {
                eprintln!("cannot read {}: {error}", path.display());
                return ExitCode::from(2);
            }
        }
    }
    ExitCode::SUCCESS
}
