//! What each machine can hold and how fast it can go. Every constant of a machine lives here, with its source.

pub mod cpu;
pub mod hopper;
pub mod tpu;
