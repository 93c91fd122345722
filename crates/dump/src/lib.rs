//! Analysis of compiler dumps: HLO, Mosaic, LLO, PTX and SASS.
//!
//! Readers turn text into trees with spans, trees into [facts](facts::Facts) and facts into
//! [findings](checks::Finding). Nothing here opens files, prints, or panics on bad input; unreadable text is
//! reported with line and column.

#![warn(clippy::print_stdout, clippy::print_stderr)]
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
