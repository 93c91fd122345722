//! Two kernels side by side: a row of facts each, and what became of every part of the one in the other.

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
