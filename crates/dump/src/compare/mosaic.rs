//! The parts of a kernel from its Mosaic text.

use super::part::{Aspect, Part, Subject, dims, operand_names};
use crate::{
    facts::{Buffer, Facts, Level, Space, Witness, role::Array},
    mosaic::{Argument, ArgumentRole, DmaOp, MosaicKernel, TensorType, View},
    source::Place,
};

const ENGINE: &str = "tpu.enqueue_dma";

/// Every part of the kernel.
pub(super) fn parts(facts: &Facts, kernel: &MosaicKernel, witness: &Witness<'_>) -> Vec<Part> {
    let text = KernelParts::new(facts, kernel, witness);
    let mut parts = text.products();
    parts.extend(kernel.arguments.iter().filter_map(|argument| text.buffer(argument)));
    parts.extend(text.copies());
    parts.extend(text.grid());
    parts
}

struct KernelParts<'a> {
    facts: &'a Facts,
    kernel: &'a MosaicKernel,
    witness: &'a Witness<'a>,
    /// Names of the operands by argument.
    names: Vec<(&'a str, String)>,
}

impl<'a> KernelParts<'a> {
    fn new(facts: &'a Facts, kernel: &'a MosaicKernel, witness: &'a Witness<'a>) -> Self {
        let operands: Vec<_> =
            kernel.arguments.iter().filter(|argument| argument.role != ArgumentRole::Scratch).collect();
        let last = operands.len().saturating_sub(1);
        // The output comes last; these kernels have one.
        let arrays = operands.iter().enumerate().map(|(index, argument)| {
            let TensorType { element, dims, .. } = &argument.memory;
            (Array { name: &argument.name, element, dims }, index == last)
        });
        let names = operand_names(arrays);
        let names = operands.iter().map(|argument| argument.name.as_str()).zip(names).collect();
        Self { facts, kernel, witness, names }
    }

    fn name(&self, argument: &str) -> Option<&str> {
        self.names.iter().find(|(name, _)| *name == argument).map(|(_, role)| role.as_str())
    }

    fn part(&self, subject: Subject, role: impl Into<String>, place: Place) -> Part {
        Part::new(Level::Mosaic, subject, role, self.witness.at_place(place))
    }

    /// One part per combination of types and shapes.
    fn products(&self) -> Vec<Part> {
        let mut groups: Vec<(String, String, Place, usize)> = Vec::new();
        for matmul in &self.kernel.matmuls {
            let by =
                |word: fn(&TensorType) -> String| format!("{} by {}", word(&matmul.lhs), word(&matmul.rhs));
            let (types, shapes) =
                (by(|operand| operand.element.to_ascii_lowercase()), by(|operand| dims(&operand.dims)));
            match groups.iter_mut().find(|group| (&group.0, &group.1) == (&types, &shapes)) {
                Some(group) => group.3 += 1,
                None => groups.push((types, shapes, matmul.place, 1)),
            }
        }
        let part = |(types, shapes, place, count): (String, String, Place, usize)| {
            let part = self.part(Subject::Products, "the kernel's matmuls", place);
            part.with(Aspect::Element, types).with(Aspect::Shape, shapes).with(Aspect::Count, count)
        };
        groups.into_iter().map(part).collect()
    }

    fn starts(&self) -> impl Iterator<Item = &'a DmaOp> {
        self.kernel.dmas.iter().filter(|dma| !dma.waits)
    }

    /// The operand that a copy moves to or from a buffer.
    fn operand_of(&self, dma: &DmaOp) -> Option<&str> {
        let root = |view: &Option<View>| view.as_ref().and_then(|view| self.name(&view.root));
        root(&dma.source).or_else(|| root(&dma.target))
    }

    fn buffer(&self, argument: &Argument) -> Option<Part> {
        let memory = &argument.memory;
        let touches = |view: &Option<View>| view.as_ref().is_some_and(|view| view.root == argument.name);
        // Waits have both ends as operands too.
        let dmas = || self.kernel.dmas.iter();
        let inbound = dmas().find(|dma| touches(&dma.target));
        let copied = inbound.or_else(|| dmas().find(|dma| touches(&dma.source)));
        let of = match argument.role {
            ArgumentRole::Operand => return None,
            ArgumentRole::Scratch => copied.and_then(|dma| self.operand_of(dma)),
            ArgumentRole::Prefetched | ArgumentRole::Window => self.name(&argument.name),
        };
        let element = memory.element.to_ascii_lowercase();
        if element.starts_with('!') {
            let part = self.part(Subject::Buffer, "the semaphores", argument.place);
            return Some(part.with(Aspect::Shape, dims(&memory.dims)));
        }
        let role = match of {
            Some(operand) => format!("the buffer of {operand}"),
            None => format!("the {element} scratch"),
        };
        let filled_by = match (argument.role, inbound) {
            (ArgumentRole::Prefetched, _) => "a copy before the kernel starts",
            (ArgumentRole::Window, _) => "the compiler's window",
            (_, Some(_)) => "copies of the kernel",
            (_, None) => "stores of the kernel",
        };
        let part = self.part(Subject::Buffer, role, argument.place);
        let part = part
            .with(Aspect::Space, Space::named(&memory.space).to_string())
            .with_known(Aspect::Places, copied.and_then(|dma| places(argument, dma)))
            .with(Aspect::Element, element)
            .with(Aspect::Shape, dims(&memory.dims))
            .with_known(Aspect::Bytes, self.bytes(argument));
        Some(part.with(Aspect::FilledBy, filled_by))
    }

    /// Padding included.
    fn bytes(&self, argument: &Argument) -> Option<u64> {
        let is_it = |buffer: &&Buffer| buffer.level == Level::Mosaic && buffer.name == argument.name;
        self.facts.buffers.iter().find(is_it)?.bytes
    }

    /// One part per array that is copied.
    fn copies(&self) -> Vec<Part> {
        let mut groups: Vec<(String, Vec<&DmaOp>)> = Vec::new();
        for dma in self.starts() {
            let role = format!("copies of {}", self.operand_of(dma).unwrap_or("a non-operand"));
            match groups.iter_mut().find(|group| group.0 == role) {
                Some(group) => group.1.push(dma),
                None => groups.push((role, vec![dma])),
            }
        }
        groups.into_iter().filter_map(|(role, dmas)| self.copy(role, &dmas)).collect()
    }

    fn copy(&self, role: String, dmas: &[&DmaOp]) -> Option<Part> {
        let first = dmas.first()?;
        let space = |view: &Option<View>| {
            view.as_ref().map_or(Space::Unstated, |view| Space::named(&view.memory.space))
        };
        // The last index identifies the operand, earlier ones the buffer slot; a computed index neither.
        let index = first.semaphore.as_ref().and_then(|semaphore| semaphore.index.last());
        let index = index.filter(|index| !index.starts_with('%')).map(|index| format!("[.., {index}]"));
        let part = self.part(Subject::Copies, role, first.place);
        let part = part
            .with(Aspect::Engine, ENGINE)
            .with(Aspect::Route, format!("{} -> {}", space(&first.source), space(&first.target)))
            .with(Aspect::Count, dmas.len());
        Some(part.with_known(Aspect::Semaphore, index))
    }

    fn grid(&self) -> Option<Part> {
        let place = self.kernel.arguments.first()?.place;
        let bounds = &self.kernel.grid;
        let extents: Vec<_> = bounds.iter().filter_map(|&bound| bound.try_into().ok()).collect();
        (!bounds.is_empty())
            .then(|| self.part(Subject::Loop, "the grid", place).with(Aspect::Trips, dims(&extents)))
    }
}

fn elements(dims: &[u64]) -> u64 {
    dims.iter().fold(1, |product, &dim| product.saturating_mul(dim))
}

/// Number of buffer slots: buffer size over copy size.
fn places(buffer: &Argument, dma: &DmaOp) -> Option<u64> {
    let is_target = dma.target.as_ref().is_some_and(|view| view.root == buffer.name);
    let view = if is_target { &dma.target } else { &dma.source };
    elements(&buffer.memory.dims).checked_div(elements(&view.as_ref()?.memory.dims))
}
