//! Operations of a kernel that could signal a semaphore, whether they ran or not.

use std::collections::HashMap;

use octile_mosaic::{
    Attr, Function, Op, Type, Value,
    interpret::{OpKind, op_kind},
};

/// A semaphore among those of one argument: `sems[1, 0]`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SemaphoreName<'n> {
    /// The argument.
    pub argument: &'n str,
    /// Its indices, empty for a single semaphore.
    indices: Vec<i64>,
}

impl<'n> SemaphoreName<'n> {
    /// Splits the name that a finding gives.
    pub(super) fn parse(name: &'n str) -> Self {
        let (argument, indices) = name.split_once('[').unwrap_or((name, ""));
        let indices = indices.trim_end_matches(']').split(',');
        Self { argument, indices: indices.filter_map(|index| index.trim().parse().ok()).collect() }
    }
}

/// A view of semaphores: the value that it is part of, and the indices that are constant.
#[derive(Clone)]
struct View {
    whole: Value,
    indices: Vec<Option<i64>>,
}

/// Operations that could signal a semaphore of `argument`, by their lines, in the order of the text.
pub(super) fn signallers(function: &Function, argument: Value, name: &SemaphoreName<'_>) -> Vec<u32> {
    let mut constants: HashMap<Value, i64> = HashMap::new();
    let mut views: HashMap<Value, View> = HashMap::new();
    views.insert(argument, View { whole: argument, indices: Vec::new() });
    let mut lines = Vec::new();
    function.walk(&mut |op| {
        if let (Some(Attr::Integer(value, _)), [result]) = (op.attributes.get("value"), &op.results[..]) {
            constants.insert(*result, *value);
        }
        let viewed = op.operands.first().and_then(|base| views.get(base));
        if let (Some(view), [result]) = (viewed, &op.results[..]) {
            let view = part(function, op, view, &constants);
            views.insert(*result, view);
        }
        let is_meant = |operand: &Value| {
            views.get(operand).is_some_and(|view| {
                let pairs = view.indices.iter().zip(&name.indices);
                view.whole == argument
                    && pairs.into_iter().all(|(have, want)| have.is_none_or(|have| have == *want))
            })
        };
        let signals = op_kind(&op.name) == Some(OpKind::StartDma) || op.name == "tpu.sem_signal";
        if signals && op.operands.iter().any(is_meant) {
            lines.extend(op.place.map(|place| place.line));
        }
    });
    lines
}

/// The view that an operation makes of another one.
fn part(function: &Function, op: &Op, view: &View, constants: &HashMap<Value, i64>) -> View {
    let rank = match op.operands.first().map(|base| function.ty(*base)) {
        Some(Type::MemRef(memref)) => memref.shape.len(),
        _ => 0,
    };
    match op_kind(&op.name) {
        // Only the first slice of a whole has indices of the whole.
        Some(OpKind::Slice) if view.indices.is_empty() => {
            let indices = op.operands.iter().skip(1).take(rank);
            let indices = indices.map(|index| constants.get(index).copied()).collect();
            View { whole: view.whole, indices }
        }
        _ => view.clone(),
    }
}

#[cfg(test)]
mod tests {
    use octile_mosaic::parse;

    use super::*;

    const KERNEL: &str = "
func.func @k(%arg0: memref<8xf32>, %arg1: memref<8xf32>, %arg2: memref<2x2x!tpu.dma_semaphore>, %arg3: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %0 = tpu.memref_slice %arg2[%c0, %arg3] : memref<2x2x!tpu.dma_semaphore> -> memref<1x1x!tpu.dma_semaphore>
  %1 = tpu.memref_squeeze %0 : memref<1x1x!tpu.dma_semaphore> -> memref<!tpu.dma_semaphore>
  tpu.enqueue_dma source(%arg0 : memref<8xf32>) target(%arg1 : memref<8xf32>) target_semaphore(%1 : memref<!tpu.dma_semaphore>)
  %2 = tpu.memref_slice %arg2[%c1, %c1] : memref<2x2x!tpu.dma_semaphore> -> memref<1x1x!tpu.dma_semaphore>
  %3 = tpu.memref_squeeze %2 : memref<1x1x!tpu.dma_semaphore> -> memref<!tpu.dma_semaphore>
  tpu.enqueue_dma source(%arg0 : memref<8xf32>) target(%arg1 : memref<8xf32>) target_semaphore(%3 : memref<!tpu.dma_semaphore>)
  return
}
";

    #[test]
    fn operations_on_other_semaphores_are_left_out() {
        let module = parse(KERNEL).expect("a kernel");
        let function = &module.functions[0];
        let lines = |name| signallers(function, function.body.arguments[2], &SemaphoreName::parse(name));
        assert_eq!(lines("arg2[0, 1]"), [7]);
        assert_eq!(lines("arg2[1, 1]"), [10]);
        assert_eq!(lines("arg2[1, 0]"), [0; 0]);
        assert_eq!(lines("arg2"), [7, 10]);
    }
}
