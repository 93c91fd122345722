//! Signals: on Ctrl-C, kill child processes, remove temporary files and print what was measured so far.
//!
//! A separate thread does this and exits, because a call into a foreign library cannot be cancelled.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// Whether the process is about to exit.
static ENDING: AtomicBool = AtomicBool::new(false);

/// What to print on exit.
static SO_FAR: Mutex<Option<String>> = Mutex::new(None);

/// Sets the partial report to print on an interruption.
pub fn keep(report: Option<String>) {
    *SO_FAR.lock().unwrap_or_else(PoisonError::into_inner) = report;
}

/// Blocks while the process exits, so that errors caused by the interruption are not printed.
pub fn yield_to_exit() {
    while ENDING.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// Handles SIGINT, SIGTERM and SIGHUP, unless the process was started with them ignored.
#[cfg(unix)]
pub fn watch() {
    use signal_hook::{
        consts::{SIGHUP, SIGINT, SIGTERM},
        iterator::Signals,
        low_level::exit,
    };
    use std::time::{Duration, Instant};

    /// Signals within this time count as one; `timeout` sends two.
    const ONE_REQUEST: Duration = Duration::from_secs(1);

    let heeded = [SIGINT, SIGTERM, SIGHUP].into_iter();
    let heeded = heeded.filter(|&signal| !octile_runtime::cleanup::is_ignored(signal));
    // Without a handler, a signal terminates the process as usual.
    let Ok(mut signals) = Signals::new(heeded) else { return };
    let watch = move || {
        let mut first = None;
        for signal in signals.forever() {
            match first {
                None => {
                    first = Some(Instant::now());
                    ENDING.store(true, Ordering::SeqCst);
                    std::thread::spawn(move || end(signal));
                }
                // A second request does not wait for the cleanup.
                Some(first) if first.elapsed() > ONE_REQUEST => exit(128 + signal),
                Some(_) => {}
            }
        }
    };
    // Without the thread, too, signals act as usual.
    let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(watch);
}

#[cfg(not(unix))]
pub fn watch() {}

/// Cleans up, prints, and exits with 128 plus the signal number.
#[cfg(unix)]
fn end(signal: i32) -> ! {
    use std::io::{IsTerminal, Write};

    octile_runtime::cleanup::end_all();
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        // Erase the progress bar and the terminal's `^C`.
        let _ = write!(stderr, "\r\x1b[2K");
    }
    if let Some(report) = SO_FAR.lock().unwrap_or_else(PoisonError::into_inner).take() {
        crate::print::emit(&report);
    }
    let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
    crate::print::say(&format!("octile: interrupted by {name}"));
    signal_hook::low_level::exit(128 + signal)
}
