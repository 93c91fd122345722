//! How to run this command line in a new process.

use std::{ffi::OsString, sync::OnceLock};

use anyhow::{Context, Result};

/// Program and first arguments, where the command line runs inside another program, such as Python.
static RESTART: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sets the program and its first arguments. The first call counts.
pub(crate) fn set(command: Vec<OsString>) {
    let _ = RESTART.set(command);
}

/// Program and arguments that run `subcommand` in a new process.
pub(crate) fn command(subcommand: &str) -> Result<Vec<OsString>> {
    let mut command = match RESTART.get() {
        Some(command) => command.clone(),
        None => vec![std::env::current_exe().context("cannot locate the octile executable")?.into()],
    };
    command.push(subcommand.into());
    Ok(command)
}
