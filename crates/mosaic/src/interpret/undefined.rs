//! Vectors with elements that depend on uninitialized memory. Loading such an element, computing with it and
//! keeping it in scratch memory is no defect: kernels load whole blocks, and mask or drop what they do not
//! need. It is one once the element reaches a result, another device, a scalar or a control decision. The
//! finding names the load. Memory that such an element is stored to counts as uninitialized.

use std::sync::Arc;

use super::{
    finding::Trouble,
    machine::{Machine, Stop},
    program::{Compiler, Step},
    timeline::Clock,
    value::{Data, Value},
    view::View,
};
use crate::{
    ir::Op,
    types::{MemorySpace, Type},
};

/// What an operation does with uninitialized elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shadow {
    /// Gives each element of its operand as it is, or converted.
    Moves,
    /// Chooses between its second and third operand.
    Selects,
    /// Computes each element from those of its operands at the same place.
    Computes,
    /// Rearranges, sums or multiplies; what it makes of NaN or of a mark shows where elements go.
    Traces { moves: bool },
    /// Packs rows of this many columns into fewer or more.
    Packs { columns: usize, elements: usize },
    /// Computes each of this many elements from any of its operands'.
    Spreads { elements: usize },
    /// Stores its first operand.
    Stores,
    /// Keeps its operand in an MXU.
    Keeps,
    /// Decides with it, or passes it on in a way that is not followed.
    Uses,
}

/// Operations that give the elements of their operands in another order.
const MOVING: &[&str] = &[
    "vector.broadcast",
    "vector.extract_strided_slice",
    "vector.insert_strided_slice",
    "vector.transpose",
    "tpu.transpose",
    "tpu.concatenate",
    "tpu.repeat",
];

impl Shadow {
    pub(crate) fn of(c: &Compiler<'_>, op: &Op) -> Self {
        let elements = |value| match c.ty(value) {
            ty @ Type::Vector(..) => Some(ty.shape().iter().product::<usize>()),
            _ => None,
        };
        let result = op.results.first().and_then(|&value| elements(value));
        let alike = || op.operands.iter().all(|&value| elements(value).is_none_or(|n| Some(n) == result));
        let is_float = op.operands.iter().all(|&value| matches!(c.ty(value).element(), Type::Float(_)));
        match (op.name.as_ref(), result) {
            ("vector.store" | "tpu.vector_store" | "tpu.strided_store", _) => Self::Stores,
            ("tpu.matmul_push_rhs" | "tpu.matmul_acc_lhs", _) => Self::Keeps,
            (_, None) => Self::Uses,
            _ if !op.regions.is_empty() || op.results.len() != 1 => Self::Uses,
            ("arith.select", _) => Self::Selects,
            ("vector.shape_cast" | "tpu.reshape" | "tpu.relayout", _) => Self::Moves,
            ("tpu.bitcast", Some(_)) if alike() => Self::Moves,
            ("tpu.bitcast", Some(elements)) => {
                let columns = op.results.first().and_then(|&value| c.ty(value).shape().last().copied());
                Self::Packs { columns: columns.unwrap_or(1).max(1), elements }
            }
            (name, _) if MOVING.contains(&name) => Self::Traces { moves: true },
            ("tpu.matmul" | "vector.contract" | "vector.multi_reduction", _) if is_float => {
                Self::Traces { moves: false }
            }
            (name, _) if is_elementwise(name) && alike() => match moves(name) {
                true => Self::Moves,
                false => Self::Computes,
            },
            (name, Some(elements))
                if ["arith.", "math.", "vector.", "tpu."].iter().any(|d| name.starts_with(d)) =>
            {
                Self::Spreads { elements }
            }
            _ => Self::Uses,
        }
    }
}

fn is_elementwise(name: &str) -> bool {
    name.starts_with("arith.") || name.starts_with("math.") || name == "tpu.reciprocal" || moves(name)
}

/// Returns whether an operation converts each element by itself.
fn moves(name: &str) -> bool {
    let name = name.split_once('.').map_or(name, |(_, name)| name);
    matches!(
        name,
        "extf"
            | "truncf"
            | "extsi"
            | "extui"
            | "trunci"
            | "sitofp"
            | "uitofp"
            | "fptosi"
            | "fptoui"
            | "bitcast"
    )
}

/// The uninitialized elements of a vector.
#[derive(Clone, Debug)]
pub(crate) struct Undefined {
    elements: Arc<Vec<bool>>,
    /// The buffer that they were loaded from, if they were only moved since.
    buffer: Option<usize>,
    /// The load, to report if an element is used.
    trouble: Trouble,
}

impl Undefined {
    /// Elements that were computed from uninitialized ones.
    pub(crate) fn new(elements: Vec<bool>, trouble: Trouble) -> Self {
        Self { elements: Arc::new(elements), buffer: None, trouble }
    }

    /// Whether each element is uninitialized.
    pub(crate) fn elements(&self) -> &[bool] {
        &self.elements
    }

    /// The load, to report if an element is used.
    pub(crate) fn trouble(&self) -> &Trouble {
        &self.trouble
    }

    fn computed(&self, elements: Vec<bool>) -> Self {
        Self { elements: Arc::new(elements), buffer: None, trouble: self.trouble.clone() }
    }
}

impl Machine<'_> {
    /// Loads a vector, and remembers which of its elements are uninitialized.
    pub(crate) fn load_vector(&mut self, step: &Step, view: &View) -> Result<Data, Stop> {
        let (data, is_defined) = self.load_undefined(step, view)?;
        if is_defined {
            return Ok(data);
        }
        let elements = self.buffers[view.buffer].unwritten_elements(view);
        let trouble = self.unwritten_trouble(view, self.core_site(step));
        if let Some(&slot) = step.results.first() {
            let (elements, buffer) = (Arc::new(elements), Some(view.buffer));
            self.undefined.insert(slot, Undefined { elements, buffer, trouble });
        }
        Ok(data)
    }

    /// Before a step runs: finds the uninitialized elements of its result, or reports what it uses.
    pub(crate) fn watch_undefined(&mut self, step: &Step) {
        step.results.iter().for_each(|slot| drop(self.undefined.remove(slot)));
        let uses = |machine: &mut Self, from: usize| {
            (from..step.operands.len()).for_each(|operand| machine.use_undefined(step, operand));
        };
        let result = match step.shadow {
            Shadow::Keeps => return,
            Shadow::Stores => return uses(self, 1),
            Shadow::Uses => return uses(self, 0),
            _ if !step.operands.iter().any(|slot| self.undefined.contains_key(slot)) => return,
            Shadow::Moves => self.operand_undefined(step, 0).cloned(),
            Shadow::Selects => self.chosen(step),
            Shadow::Computes => self.united(step),
            Shadow::Spreads { elements } => {
                self.any_undefined(step).map(|any| any.computed(vec![true; elements]))
            }
            Shadow::Packs { columns, elements } => {
                let packed = |of: &Undefined| of.computed(packed(&of.elements, columns, elements));
                self.operand_undefined(step, 0).map(packed)
            }
            Shadow::Traces { moves } => self.traced(step, moves),
        };
        if let (Some(undefined), Some(&slot)) = (result, step.results.first())
            && undefined.elements.contains(&true)
        {
            self.undefined.insert(slot, undefined);
        }
    }

    pub(super) fn operand_undefined(&self, step: &Step, operand: usize) -> Option<&Undefined> {
        self.undefined.get(step.operands.get(operand)?)
    }

    fn any_undefined(&self, step: &Step) -> Option<&Undefined> {
        step.operands.iter().find_map(|slot| self.undefined.get(slot))
    }

    fn use_undefined(&mut self, step: &Step, operand: usize) {
        if let Some(undefined) = self.undefined.remove(&step.operands[operand]) {
            self.findings.add(undefined.trouble);
        }
    }

    /// Elements that are uninitialized in any operand.
    fn united(&self, step: &Step) -> Option<Undefined> {
        let any = self.any_undefined(step)?;
        let mut elements = vec![false; any.elements.len()];
        for operand in step.operands.iter().filter_map(|slot| self.undefined.get(slot)) {
            elements.iter_mut().zip(operand.elements.iter()).for_each(|(all, &one)| *all |= one);
        }
        Some(any.computed(elements))
    }

    /// The uninitialized elements that a select chooses, or chooses by.
    fn chosen(&self, step: &Step) -> Option<Undefined> {
        let [by, yes, no] = [0, 1, 2].map(|operand| self.operand_undefined(step, operand));
        let any = yes.or(no).or(by)?;
        let takes = |choice: Option<&Undefined>, element: usize| {
            choice.is_some_and(|u| u.elements.get(element).copied().unwrap_or(true))
        };
        let pick = |element: usize, condition: bool| {
            takes(by, element) || takes(if condition { yes } else { no }, element)
        };
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
        let buffer = any.buffer.filter(|_| by.is_none());
        Some(Undefined { elements: Arc::new(elements), buffer, trouble: any.trouble.clone() })
    }

    /// Runs the step on marks instead of values: NaN or 1 for elements that are uninitialized, 0 for others.
    fn traced(&mut self, step: &Step, moves: bool) -> Option<Undefined> {
        let any = self.any_undefined(step)?.clone();
        let values: Vec<Value> =
            step.operands.iter().map(|&slot| self.frame[slot as usize].clone()).collect();
        for (&slot, value) in step.operands.iter().zip(&values) {
            let marks = self.undefined.get(&slot).map(|undefined| undefined.elements.clone());
            let marked = match (value, marks) {
                (Value::Vector(Data::Float(_) | Data::Floats(_)), Some(marks)) => {
                    let mark = |&mark: &bool| if mark { f32::NAN } else { 0.0 };
                    Data::floats(marks.iter().map(mark).collect())
                }
                (Value::Vector(_), Some(marks)) => Data::integers(marks.iter().map(|&m| m.into()).collect()),
                (Value::Vector(Data::Float(_) | Data::Floats(_)), None) => Data::Float(0.0),
                (Value::Vector(_), None) => Data::Integer(0),
                _ => continue,
            };
            self.frame[slot as usize] = Value::Vector(marked);
        }
        let clock = std::mem::replace(&mut self.clock, Clock::new(self.options.rates, false));
        let ran = (step.exec)(self, step);
        self.clock = clock;
        let result = step.results.first().map(|&slot| std::mem::take(&mut self.frame[slot as usize]));
        for (&slot, value) in step.operands.iter().zip(values) {
            self.frame[slot as usize] = value;
        }
        let elements: Vec<bool> = match (ran, result?) {
            (Ok(()), Value::Vector(Data::Floats(marks))) => marks.iter().map(|mark| mark.is_nan()).collect(),
            (Ok(()), Value::Vector(Data::Integers(marks))) => marks.iter().map(|&mark| mark != 0).collect(),
            _ => return None,
        };
        let buffer = any.buffer.filter(|_| moves);
        Some(Undefined { elements: Arc::new(elements), buffer, trouble: any.trouble })
    }

    /// After a store of operand 0 to `view`: its uninitialized elements make the memory so, unless masked
    /// out.
    pub(crate) fn store_undefined(&mut self, step: &Step, view: &View, mask: Option<&[i32]>) {
        let Some(undefined) = self.undefined.get(&step.operands[0]) else { return };
        let stored = |element: usize| mask.is_none_or(|mask| mask[element] != 0);
        if !undefined.elements.iter().enumerate().any(|(element, &lost)| lost && stored(element)) {
            return;
        }
        let buffer = &mut self.buffers[view.buffer];
        let goes_back = undefined.buffer == Some(view.buffer);
        if !goes_back && (buffer.space != MemorySpace::Vmem || buffer.is_far || buffer.is_result) {
            return self.findings.add(undefined.trouble.clone());
        }
        if !goes_back {
            buffer.spoiled.get_or_insert_with(|| Box::new(undefined.trouble.clone()));
        }
        buffer.lose(view, |element| undefined.elements[element] && stored(element));
    }
}

/// Elements of a vector whose rows are packed into fewer, or unpacked into more.
fn packed(from: &[bool], columns: usize, elements: usize) -> Vec<bool> {
    let (wide, narrow) = (from.len() / elements.max(1), elements / from.len().max(1));
    let at = |row: usize, column: usize| from.get(row * columns + column).copied().unwrap_or(true);
    let element = |element: usize| {
        let (row, column) = (element / columns, element % columns);
        match wide > 1 {
            true => (row * wide..(row + 1) * wide).any(|row| at(row, column)),
            false => at(row / narrow.max(1), column),
        }
    };
    (0..elements).map(element).collect()
}
