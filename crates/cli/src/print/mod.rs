//! Report values as text. Everything that a user reads on standard output is written here.

pub mod analyze;
pub mod bench;
pub mod compare;
pub mod devices;
pub mod inspect;
mod printable;
pub mod quantize;
pub mod report;
pub mod run_module;
pub mod simulate;
pub mod test;
pub mod tools;
pub mod verify;

use std::{
    fmt,
    io::{self, Write},
    sync::OnceLock,
};

pub use printable::{one_line, printable, shown};

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

/// The first failure of standard output, which ends the program with an error once its work is done.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Writes to standard output. All that users see of files comes through here, and nothing in it may steer their terminal.
pub(crate) fn emit(text: &Text) {
    if let Err(error) = write(&mut io::stdout().lock(), &printable(text)) {
        let _ = FAILURE.set(error);
    }
}

/// Writes a line to standard error. That it is full or closed is nothing that could still be said.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", printable(line));
}

/// Why standard output does not hold all that was printed; `None` when it does.
pub fn failure() -> Option<&'static io::Error> {
    FAILURE.get()
}

/// A reader that has seen enough (`octile test | head`) is not an error.
fn write(output: &mut impl Write, text: &str) -> io::Result<()> {
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
