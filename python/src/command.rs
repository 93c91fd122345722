//! The `octile` command inside the extension module.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the `octile` command with these arguments and returns its exit code.
///
/// `restart` is the command line that runs the same command in a new process. SIGINT, SIGTERM and SIGHUP end
/// this process from here on.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, arguments: Vec<OsString>, restart: Vec<OsString>) -> u8 {
    py.detach(|| octile_cli::run_with(arguments, restart))
}
