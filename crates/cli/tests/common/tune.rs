//! Runs `octile` with tables of its own.

use std::{
    path::Path,
    process::{Command, Output},
};

/// A command in a folder that also holds its tables.
pub(crate) fn octile(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octile"));
    command.args(args).env("OCTILE_TUNED_DIR", folder).current_dir(folder);
    for variable in ["OCTILE_TUNED", "OCTILE_BATCH_INVARIANT", "OCTILE_ISA"] {
        command.env_remove(variable);
    }
    command
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
pub(crate) fn success(output: Output) -> String {
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Exit code 2 and one sentence.
#[track_caller]
pub(crate) fn refused(output: &Output, says: &str) {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains(says) && message.lines().count() == 1, "{says}: {message}");
}
