//! What a compiler made of a kernel, read from the text it dumped.
//!
//! Foreign text comes in, values go out: a tree that points back into the text, facts, cycles, verdicts. Nothing
//! here opens a file, prints, or panics on bad input; what could not be read is reported with its place.

#![forbid(unsafe_code)]

pub mod checks;
pub mod compare;
pub mod facts;
mod flight;
pub mod gpu;
pub mod hlo;
pub mod limits;
pub mod llo;
pub mod mosaic;
pub mod profile;
pub mod roofline;
pub mod schedule;
pub mod source;
pub mod utilization;

pub use source::{Damage, Place, Span};
