//! Report values as text: everything that a user reads on standard output.

pub mod analyze;
pub mod bench;
pub mod compare;
pub mod devices;
pub mod inspect;
pub mod inspect_model;
pub mod model;
mod paint;
mod plans;
mod printable;
pub mod quantize;
pub mod report;
pub mod run_module;
pub mod simulate;
pub mod source_lines;
pub mod test;
pub mod tools;
pub mod tune;
pub mod verify;

use std::{
    fmt,
    io::{self, Write},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::args::ColorChoice;

pub use printable::{joined_lines, one_line, printable, shown};

/// A report, built up and then printed at once, so that tests can read what users see.
type Text = String;

const WIDTH: usize = 80;

/// A heading between two rules.
fn heading(title: impl fmt::Display) -> String {
    let rule = "=".repeat(WIDTH);
    format!("{rule}\n{title}\n{rule}\n")
}

/// A number with its noun: `1 shape`, `2 shapes`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn rule() -> String {
    format!("{}\n", "-".repeat(WIDTH))
}

/// First failure of standard output, reported as an error when the command is done.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Whether reports and progress are suppressed.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Applies the global options, before anything is printed.
pub(crate) fn configure(quiet: bool, color: ColorChoice) {
    QUIET.store(quiet, Ordering::Relaxed);
    match color {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::AlwaysAnsi,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

/// Whether reports and progress are suppressed.
pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Prints a report on standard output, without control characters from file contents. Suppressed by
/// `--quiet`.
pub(crate) fn emit(text: &Text) {
    if !is_quiet() {
        keep_failure(write(&mut anstream::stdout().lock(), &paint::verdicts(&printable(text))));
    }
}

/// Prints a document on standard output: JSON and other output for programs, which `--quiet` does not
/// suppress.
pub(crate) fn emit_document(text: &str) {
    keep_failure(write(&mut io::stdout().lock(), &printable(text)));
}

/// Prints workflow commands, which GitHub Actions reads from either stream: on standard error where a
/// document takes standard output.
pub(crate) fn annotate(text: &str, is_replaced: bool) {
    match is_replaced {
        true => text.lines().for_each(say),
        false => emit_document(text),
    }
}

fn keep_failure(written: io::Result<()>) {
    if let Err(error) = written {
        let _ = FAILURE.set(error);
    }
}

/// Writes a line to standard error. Its own failure cannot be reported.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(line));
}

/// First failure of standard output.
pub fn failure() -> Option<&'static io::Error> {
    FAILURE.get()
}

/// A closed pipe (`octile test | head`) is not an error.
fn write(output: &mut impl Write, text: &str) -> io::Result<()> {
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
