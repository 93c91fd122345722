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
pub mod interrupt;
pub mod measure;
mod plain_path;
pub mod print;
pub mod progress;
pub mod record;
pub mod stats;
mod strict_json;
pub mod tensor_file;
pub mod tools;

use std::process::ExitCode;

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
/// be carried out; 128 + N: signal N ended it.
pub fn run() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => return refuse(&error),
    };
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
        Ok(Verdict::Passed) => ExitCode::SUCCESS,
        Ok(Verdict::Failed) => ExitCode::from(1),
        Err(error) => {
            print::say(&format!("octile: {error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Help is printed as it is; a refusal may repeat the name of a file, which may be anyone's.
fn refuse(error: &clap::Error) -> ExitCode {
    let plain = error.render().to_string();
    if print::printable(&plain) == plain {
        // With colours where there is a terminal. A closed pipe is no error.
        let _ = error.print();
    } else {
        print::say(plain.trim_end());
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
