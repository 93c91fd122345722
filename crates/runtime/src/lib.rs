//! Runs.

pub mod pjrt;
