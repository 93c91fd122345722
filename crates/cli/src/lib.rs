//! Everything behind the `octile` command: arguments become a job, a command turns the job into report values, a
//! printer turns those into text. Commands never print; printers never compute.

#![forbid(unsafe_code)]

mod abandoned;
pub mod args;
pub mod backend;
pub mod case;
pub mod check;
pub mod command;
pub mod input;
pub mod measure;
mod plain_path;
pub mod print;
pub mod progress;
pub mod record;
pub mod stats;
mod strict_json;
pub mod tensor_file;
pub mod tools;

use std::{io::Write, process::ExitCode};

use clap::Parser;

/// What a command that ran to its end found. Errors are a third thing and exit with 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Everything asked about is in order.
    Passed,
    /// Something asked about is not.
    Failed,
}

impl Verdict {
    /// Passed when `ok` holds.
    pub fn of(ok: bool) -> Self {
        if ok { Self::Passed } else { Self::Failed }
    }
}

/// Runs the command line of this process. Exit code 0: all in order; 1: a check failed; 2: the request could not
/// be carried out.
pub fn run() -> ExitCode {
    // Clap prints help and usage errors itself, with the same exit code 2 for the latter.
    let args = args::Args::parse();
    let printed = |verdict| match print::failure() {
        None => Ok(verdict),
        Some(error) => Err(anyhow::anyhow!("cannot write to standard output: {error}")),
    };
    match command::dispatch(args).and_then(printed) {
        Ok(Verdict::Passed) => ExitCode::SUCCESS,
        Ok(Verdict::Failed) => ExitCode::from(1),
        Err(error) => {
            // Standard error may be as full as standard output.
            let _ = writeln!(std::io::stderr(), "octile: {error:#}");
            ExitCode::from(2)
        }
    }
}
