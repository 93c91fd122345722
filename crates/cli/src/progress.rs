//! A progress bar on a terminal, nothing elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use octile_harness::Observer;

/// Progress of a command. Hidden with `--quiet`, and when standard error is not a terminal.
#[derive(Debug, Clone)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar of `steps` steps.
    pub fn new(steps: u64) -> Self {
        Self::with_template(steps, "{bar:30} {pos}/{len} {elapsed} {msg}")
    }

    /// A bar of `bytes` bytes, with the rate and the remaining time.
    pub fn of_bytes(bytes: u64) -> Self {
        let template =
            "{bar:30} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} ETA {eta} {msg}";
        Self::with_template(bytes, template)
    }

    fn with_template(len: u64, template: &str) -> Self {
        if crate::print::is_quiet() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(len);
        bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Shows the current activity.
    pub fn doing(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }

    /// Advances by one step.
    pub fn step(&self) {
        self.0.inc(1);
    }

    /// Advances by `bytes`.
    pub fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Observer for Progress {
    fn doing(&self, what: String) {
        self.0.set_message(what);
    }

    fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
