//! Vectors with elements that were loaded from uninitialized memory. Loading them is no defect yet: kernels
//! load a whole block, select some elements and store the block again. An operation that computes with such an
//! element, or stores it elsewhere, is; one that moves it passes it on. A store leaves the memory uninitialized.

use std::sync::Arc;

use super::{
    finding::Trouble,
    machine::{Machine, Stop},
    program::Step,
    value::{Data, Value},
    view::View,
};
use crate::ir::Op;

/// What an operation does with uninitialized elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shadow {
    /// Gives each element of its operand as it is, or converted.
    Moves,
    /// Chooses between its second and third operand.
    Selects,
    /// Stores its first operand.
    Stores,
    /// Computes with it.
    Uses,
}

impl Shadow {
    pub(crate) fn of(op: &Op) -> Self {
        match op.name.as_ref() {
            "arith.extf" | "arith.truncf" | "arith.extsi" | "arith.extui" | "arith.trunci" => Self::Moves,
            "arith.sitofp" | "arith.uitofp" | "arith.fptosi" | "arith.fptoui" => Self::Moves,
            "tpu.extf" | "tpu.truncf" | "tpu.sitofp" | "tpu.uitofp" | "tpu.fptosi" | "tpu.fptoui" => {
                Self::Moves
            }
            "arith.bitcast" | "vector.shape_cast" | "tpu.reshape" | "tpu.relayout" => Self::Moves,
            "arith.select" => Self::Selects,
            "vector.store" | "tpu.vector_store" | "tpu.strided_store" => Self::Stores,
            _ => Self::Uses,
        }
    }
}

/// The uninitialized elements of a vector.
#[derive(Clone, Debug)]
pub(crate) struct Undefined {
    elements: Arc<Vec<bool>>,
    /// The buffer that they were loaded from.
    buffer: usize,
    /// The load, to report if an element is used.
    trouble: Trouble,
}

impl Machine<'_> {
    /// Loads a vector, and remembers which of its elements are uninitialized.
    pub(crate) fn load_vector(&mut self, step: &Step, view: &View) -> Result<Data, Stop> {
        let (data, is_defined) = self.load_undefined(step, view)?;
        if is_defined {
            return Ok(data);
        }
        let buffer = &self.buffers[view.buffer];
        let mut elements = Vec::with_capacity(view.elements());
        let columns = view.dims.last().map_or(1, |dim| dim.extent);
        for row in 0..view.elements() / columns.max(1) {
            let row = view.row(row);
            match buffer.is_written(&row) {
                true => elements.resize(elements.len() + columns, false),
                false => elements.extend((0..columns).map(|column| !buffer.is_written(&row.column(column)))),
            }
        }
        let trouble = self.unwritten_trouble(view, self.core_site(step));
        if let Some(&slot) = step.results.first() {
            self.undefined
                .insert(slot, Undefined { elements: Arc::new(elements), buffer: view.buffer, trouble });
        }
        Ok(data)
    }

    /// Passes uninitialized elements on to the results of a step that ran, or reports their use.
    pub(crate) fn follow_undefined(&mut self, step: &Step) {
        match step.shadow {
            Shadow::Moves => {
                let moved = step.operands.first().and_then(|slot| self.undefined.get(slot)).cloned();
                if let (Some(undefined), Some(&result)) = (moved, step.results.first()) {
                    self.undefined.insert(result, undefined);
                }
            }
            // The store itself keeps them; selects and uses look before they run.
            Shadow::Stores | Shadow::Selects | Shadow::Uses => {}
        }
    }

    /// Before a step runs: forgets the old values of its results, and reports what it computes with.
    pub(crate) fn watch_undefined(&mut self, step: &Step) {
        step.results.iter().for_each(|slot| drop(self.undefined.remove(slot)));
        match step.shadow {
            Shadow::Moves => {}
            Shadow::Selects => {
                self.use_undefined(step, 0);
                if let (Some(chosen), Some(&result)) = (self.chosen(step), step.results.first()) {
                    self.undefined.insert(result, chosen);
                }
            }
            Shadow::Stores => (1..step.operands.len()).for_each(|operand| self.use_undefined(step, operand)),
            Shadow::Uses => (0..step.operands.len()).for_each(|operand| self.use_undefined(step, operand)),
        }
    }

    fn use_undefined(&mut self, step: &Step, operand: usize) {
        if let Some(undefined) = self.undefined.remove(&step.operands[operand]) {
            self.findings.add(undefined.trouble);
        }
    }

    /// The uninitialized elements that a select chooses.
    fn chosen(&self, step: &Step) -> Option<Undefined> {
        let [yes, no] = [1, 2].map(|operand| self.undefined.get(&step.operands[operand]));
        let any = yes.or(no)?;
        let takes = |choice: Option<&Undefined>, element: usize| choice.is_some_and(|u| u.elements[element]);
        let pick = |element: usize, condition: bool| takes(if condition { yes } else { no }, element);
        let count = any.elements.len();
        let elements: Vec<bool> = match self.value(step, 0) {
            Value::Integer(condition) => (0..count).map(|element| pick(element, *condition != 0)).collect(),
            Value::Vector(Data::Integer(condition)) => {
                (0..count).map(|element| pick(element, *condition != 0)).collect()
            }
            Value::Vector(Data::Integers(mask)) => {
                (0..count).map(|element| pick(element, mask[element] != 0)).collect()
            }
            _ => return Some(any.clone()),
        };
        let is_left = elements.contains(&true);
        is_left.then(|| Undefined { elements: Arc::new(elements), ..any.clone() })
    }

    /// After a store of operand 0 to `view`: elements that were uninitialized still are, unless masked out.
    pub(crate) fn store_undefined(&mut self, step: &Step, view: &View, mask: Option<&[i32]>) {
        let Some(undefined) = self.undefined.get(&step.operands[0]) else { return };
        // Only what is stored back where it came from is not used.
        if undefined.buffer != view.buffer {
            return self.findings.add(undefined.trouble.clone());
        }
        let buffer = &mut self.buffers[view.buffer];
        let columns = view.dims.last().map_or(1, |dim| dim.extent).max(1);
        for (number, elements) in undefined.elements.chunks(columns).enumerate() {
            let row = view.row(number);
            let stored = |column: usize| mask.is_none_or(|mask| mask[number * columns + column] != 0);
            match mask.is_none() && elements.iter().all(|&element| element) {
                true => buffer.mark(&row, false),
                false => {
                    let lost =
                        elements.iter().enumerate().filter(|(column, element)| **element && stored(*column));
                    lost.for_each(|(column, _)| buffer.mark(&row.column(column), false));
                }
            }
        }
    }
}
