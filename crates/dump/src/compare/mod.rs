//! Comparison of two kernels: a row of facts each, and the differences part by part.

mod mosaic;
mod operations;
mod part;
mod row;
mod schedule;
mod structure;
mod verdict;

pub use operations::{OperationChange, gpu_operations, operations};
pub use part::{Aspect, Subject, Value};
pub use row::Row;
pub use structure::{Difference, Dump, Fate, File, Shift, Structure};
pub use verdict::{Change, changes};
