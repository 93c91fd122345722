//! Runs.

pub mod cpu;
pub mod pjrt;
