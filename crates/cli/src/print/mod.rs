//! Report values as text. Everything that a user reads on standard output is written here.

pub mod analyze;
pub mod bench;
pub mod compare;
pub mod devices;
pub mod inspect;
pub mod report;
pub mod run_module;
pub mod simulate;
pub mod test;
pub mod tools;
pub mod verify;

use std::fmt;

/// Text that is built up and then printed at once, so that tests can read what users see.
type Text = String;

const WIDTH: usize = 80;

/// A heading between two rules.
fn heading(title: impl fmt::Display) -> String {
    let rule = "=".repeat(WIDTH);
    format!("{rule}\n{title}\n{rule}\n")
}

fn rule() -> String {
    format!("{}\n", "-".repeat(WIDTH))
}

/// Writes to standard output. A closed pipe (`octile test | head`) is not an error.
fn emit(text: &Text) {
    use std::io::Write;
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}
