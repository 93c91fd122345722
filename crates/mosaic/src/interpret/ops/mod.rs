//! The operations, one table per kind. A table's entry makes an operation ready: it checks types and attributes once,
//! and gives the closure that runs.

mod control;
mod convert;
mod copy;
mod float;
mod integer;
mod matmul;
mod memory;
mod reduce;
mod reshape;
mod stablehlo;

pub(super) use stablehlo::embedded_text;

use super::program::{Compiler, Made};
use crate::ir::Op;

/// Makes an operation ready.
pub(super) type Maker = fn(&mut Compiler<'_>, &Op) -> Made;

type Table = &'static [(&'static str, Maker)];

const TABLES: [Table; 10] = [
    integer::OPS,
    float::OPS,
    convert::OPS,
    reshape::OPS,
    reduce::OPS,
    matmul::OPS,
    memory::OPS,
    copy::OPS,
    control::OPS,
    stablehlo::OPS,
];

pub(super) fn maker(name: &str) -> Option<Maker> {
    TABLES.iter().copied().flatten().find(|(listed, _)| *listed == name).map(|(_, maker)| *maker)
}

/// Every operation that can be run, in alphabetical order.
pub fn supported() -> Vec<&'static str> {
    let mut names: Vec<_> = TABLES.iter().copied().flatten().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names
}

/// Whether an operation does more than compute its results. One that does not is left out if nobody needs them, as
/// a compiler would leave it out: a load that precedes every store in lowered kernels is not a read.
pub(super) fn has_effect(name: &str) -> bool {
    let reads_or_computes = match name.split_once('.') {
        Some(("arith" | "math", _)) => true,
        Some(("vector", name)) => name != "store",
        Some(("memref", name)) => name != "store",
        Some(("tpu", name)) => !matches!(
            name,
            "vector_store"
                | "enqueue_dma"
                | "wait_dma2"
                | "wait_dma"
                | "sem_signal"
                | "sem_wait"
                | "sem_read"
                | "region"
                | "yield"
                | "trace_start"
                | "trace_stop"
                | "delay"
        ),
        Some(("stablehlo", name)) => !matches!(name, "return" | "custom_call"),
        _ => false,
    };
    !reads_or_computes
}
