//! The `octile` command: arguments become a request, a command turns it into report values, a printer turns
//! those into text. Commands never print; printers never compute.

#![warn(clippy::print_stdout, clippy::print_stderr)]
#![forbid(unsafe_code)]

mod abandoned;
pub mod args;
pub mod command;
pub mod input;
pub mod interrupt;
pub mod kernel_file;
pub mod output;
mod plain_path;
pub mod print;
pub mod progress;
pub mod python;
mod restart;
mod strict_json;
pub mod tensor_file;
pub mod tools;

/// Tuned plans of TPU chips, for the Python package, which lowers kernels for JAX.
pub use octile_runtime::pjrt::tuned as tpu_tuned;

use std::{ffi::OsString, process::ExitCode};

use clap::Parser;

/// Verdict of a command that completed. Errors are separate and exit with 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every check passed.
    Passed,
    /// A check failed.
    Failed,
}

impl Verdict {
    /// Passed when `ok` holds.
    pub fn of(ok: bool) -> Self {
        if ok { Self::Passed } else { Self::Failed }
    }
}

/// Runs the command line of this process. Exit codes: 0 passed, 1 a check failed, 2 error, 128 + N ended by
/// signal N.
pub fn run() -> ExitCode {
    ExitCode::from(run_parsed(args::Args::try_parse()))
}

/// Runs a command line inside another program, and returns the exit code. The first argument is the name of
/// the command; `restart` starts the command line in a new process when its arguments are appended.
pub fn run_with(arguments: Vec<OsString>, restart: Vec<OsString>) -> u8 {
    restart::set(restart);
    run_parsed(args::Args::try_parse_from(arguments))
}

fn run_parsed(args: Result<args::Args, clap::Error>) -> u8 {
    let args = match args {
        Ok(args) => args,
        Err(error) => return refuse(&error),
    };
    print::configure(args.quiet, args.color);
    // The compiler's process ends with its parent.
    if !matches!(args.command, Some(args::Command::CompileChild)) {
        interrupt::watch();
    }
    let printed = |verdict| match print::failure() {
        None => Ok(verdict),
        Some(error) => Err(anyhow::anyhow!("cannot write to standard output: {error}")),
    };
    let outcome = command::dispatch(args).and_then(printed);
    interrupt::yield_to_exit();
    match outcome {
        Ok(Verdict::Passed) => 0,
        Ok(Verdict::Failed) => 1,
        Err(error) => {
            print::say(&format!("octile: {error:#}"));
            2
        }
    }
}

/// Prints help as it is; an error may repeat an argument, which may contain control characters.
fn refuse(error: &clap::Error) -> u8 {
    let plain = error.render().to_string();
    if print::printable(&plain) == plain {
        // Colored on a terminal. A closed pipe is not an error.
        let _ = error.print();
    } else {
        print::say(plain.trim_end());
    }
    u8::try_from(error.exit_code()).unwrap_or(2)
}
