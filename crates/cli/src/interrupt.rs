//! Ctrl-C and its kin: children are ended, temporary files removed, and what was measured so far is printed.
//!
//! A thread of its own does that and exits, whatever the others are at: a call into a foreign library cannot be given up.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

/// Whether the process is about to exit.
static ENDING: AtomicBool = AtomicBool::new(false);

/// What to print when it comes to that.
static SO_FAR: Mutex<Option<String>> = Mutex::new(None);

/// Keeps what a command would print if it were interrupted now.
pub fn keep(report: Option<String>) {
    *SO_FAR.lock().unwrap_or_else(PoisonError::into_inner) = report;
}

/// Waits for the exit that is under way, if one is: what this thread could still say comes of the interruption.
pub fn yield_to_exit() {
    while ENDING.load(Ordering::SeqCst) {
        std::thread::park();
    }
}

/// Ends the process well on SIGINT, SIGTERM and SIGHUP, unless it was started with them ignored.
#[cfg(unix)]
pub fn watch() {
    use signal_hook::{
        consts::{SIGHUP, SIGINT, SIGTERM},
        iterator::Signals,
        low_level::exit,
    };
    use std::time::{Duration, Instant};

    /// One request may come as two signals, as those of `timeout` do.
    const ONE_REQUEST: Duration = Duration::from_secs(1);

    let heeded = [SIGINT, SIGTERM, SIGHUP].into_iter();
    let heeded = heeded.filter(|&signal| !octile_runtime::cleanup::is_ignored(signal));
    // Without the watch, a signal ends the process as it ends any other.
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
                // Who asks again does not want to wait for it.
                Some(first) if first.elapsed() > ONE_REQUEST => exit(128 + signal),
                Some(_) => {}
            }
        }
    };
    // As above, should there be no thread.
    let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(watch);
}

#[cfg(not(unix))]
pub fn watch() {}

/// Cleans up, prints and exits as shells expect of a process that a signal ended.
#[cfg(unix)]
fn end(signal: i32) -> ! {
    use std::io::{IsTerminal, Write};

    octile_runtime::cleanup::end_all();
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        // The progress bar and the `^C` of the terminal.
        let _ = write!(stderr, "\r\x1b[2K");
    }
    if let Some(report) = SO_FAR.lock().unwrap_or_else(PoisonError::into_inner).take() {
        crate::print::emit(&report);
    }
    let name = signal_hook::low_level::signal_name(signal).unwrap_or("a signal");
    crate::print::say(&format!("octile: interrupted by {name}"));
    signal_hook::low_level::exit(128 + signal)
}
