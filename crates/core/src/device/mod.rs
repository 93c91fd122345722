//! Device tables: capacities and rates of every machine, with their sources.

pub mod cpu;
pub mod hopper;
pub mod tpu;
