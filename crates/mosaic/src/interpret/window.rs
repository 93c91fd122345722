//! Pipelined windows: operand blocks copied in and out around the grid steps, double-buffered like the
//! compiler's pipeline.

use std::{collections::HashMap, sync::Arc};

use super::{
    element::Element,
    finding::{Agent, Finding, Site, Trouble},
    machine::{Machine, Stop},
    program::{Code, Program, Unrunnable},
    track::{Visit, padded},
    value::Value,
    view::View,
};
use crate::{
    attribute::{Attr, Attributes},
    ir::Function,
    types::{DYNAMIC, MemRef, MemorySpace, Type},
};

/// How the kernel accesses an operand.
pub(super) enum WindowSpec {
    /// In place.
    Direct,
    /// As a whole, copied in before the first step or out after the last.
    Whole,
    /// Block by block.
    Blocks {
        /// Index map from grid indices to the block index.
        transform: Arc<Code>,
        block: Vec<usize>,
        /// Buffer count: 2, or 1 for a synchronous pipeline.
        buffers: usize,
        /// The index map gives elements, not blocks: how far a block may begin before the operand.
        elements: Option<ElementWindow>,
        /// Blocks of a result may be visited again: they are fetched then.
        revisits: bool,
    },
}

/// A window that is placed by element, not by block.
#[derive(Clone, Debug)]
pub(super) struct ElementWindow {
    /// Elements of padding before and after the operand, per dimension.
    low: Vec<i64>,
    high: Vec<i64>,
}

impl ElementWindow {
    /// Reads `#tpu.element_window<[low],[high]>`.
    fn parse(text: &str, rank: usize) -> Option<Self> {
        let lists = text.strip_prefix("#tpu.element_window<[")?.strip_suffix("]>")?;
        let (low, high) = lists.split_once(']')?;
        let high = high.trim_start_matches([',', ' ']).strip_prefix('[')?;
        let list = |text: &str| -> Option<Vec<i64>> {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            let small = |item: &str| item.parse().ok().filter(|pad| (0..1 << 32).contains(pad));
            items.map(small).collect::<Option<Vec<i64>>>().filter(|items| items.len() == rank)
        };
        Some(Self { low: list(low)?, high: list(high)? })
    }
}

impl WindowSpec {
    /// Reads the windows of all operands.
    pub(super) fn of(
        function: &Function,
        program: &Program,
        operands: &[Type],
        before: usize,
    ) -> Result<Vec<Self>, Unrunnable> {
        // The index map sees the grid indices and the scalar-prefetch operands.
        let arguments = &function.body.arguments[..before];
        let arguments: Vec<&Type> = arguments.iter().map(|&value| function.ty(value)).collect();
        let none = Attributes::new();
        let params: Vec<&Attributes> = match function.attributes.get("window_params") {
            Some(Attr::Array(params)) if params.len() == operands.len() => {
                params.iter().map(window_attributes).collect::<Result<_, _>>()?
            }
            None => vec![&none; operands.len()],
            Some(_) => {
                return Err(Unrunnable::Kernel(format!(
                    "window_params does not describe each of the kernel's {} operands",
                    operands.len()
                )));
            }
        };
        operands.iter().zip(params).map(|(ty, params)| Self::one(program, ty, params, &arguments)).collect()
    }

    fn one(
        program: &Program,
        ty: &Type,
        params: &Attributes,
        arguments: &[&Type],
    ) -> Result<Self, Unrunnable> {
        let space = if let Type::MemRef(memref) = ty { memref.space } else { None };
        let Some(transform) = params.get("transform_indices") else {
            if let Some(kind) = params.get("window_kind") {
                return Err(Unrunnable::Kernel(format!(
                    "a window with window_kind = {kind} needs an index map"
                )));
            }
            let far = matches!(space, Some(MemorySpace::Hbm | MemorySpace::Any | MemorySpace::Semaphore));
            return Ok(if far { Self::Direct } else { Self::Whole });
        };
        let Attr::Symbol(transform) = transform else {
            return Err(Unrunnable::Kernel(format!("transform_indices is not a symbol: {transform}")));
        };
        let transform = program.function(transform)?.clone();
        let block: Vec<usize> = match params.get("window_bounds") {
            Some(Attr::I64s(bounds)) => bounds.iter().map(|&bound| bound.max(0) as usize).collect(),
            Some(other) => {
                return Err(Unrunnable::Kernel(format!("window_bounds is not a list of integers: {other}")));
            }
            None => ty.shape().to_vec(),
        };
        let takes = &transform.argument_types;
        let fits = block == ty.shape()
            && !block.contains(&DYNAMIC)
            && transform.results == vec![Type::I32; block.len()]
            && takes.len() <= arguments.len()
            && takes.iter().eq(arguments[..takes.len()].iter().copied());
        if !fits {
            return Err(Unrunnable::Kernel(format!(
                "the window's block and index map do not match its operand of type {ty}"
            )));
        }
        let buffers = match params.get("pipeline_mode").map(ToString::to_string).as_deref() {
            Some("#tpu.pipeline_mode<synchronous>") => 1,
            Some("#tpu.pipeline_mode<double_buffered>") | None => 2,
            Some(other) => {
                return Err(Unrunnable::Kernel(format!(
                    "windows with pipeline_mode = {other} are not supported"
                )));
            }
        };
        let elements = match params.get("window_kind").map(ToString::to_string) {
            None => None,
            Some(kind) => Some(ElementWindow::parse(&kind, block.len()).ok_or_else(|| {
                Unrunnable::Kernel(format!("windows with window_kind = {kind} are not supported"))
            })?),
        };
        let revisits = match params.get("revisit_mode").map(ToString::to_string).as_deref() {
            None | Some("#tpu.revisit_mode<immediate>") => false,
            Some("#tpu.revisit_mode<any>") => true,
            Some(other) => {
                return Err(Unrunnable::Kernel(format!(
                    "windows with revisit_mode = {other} are not supported"
                )));
            }
        };
        Ok(Self::Blocks { transform, block, buffers, elements, revisits })
    }

    /// Number of buffers in the kernel's memory.
    pub(super) fn buffers(&self) -> usize {
        match self {
            Self::Direct | Self::Whole => 1,
            Self::Blocks { buffers, .. } => *buffers,
        }
    }

    /// First element of a block along each dimension; before the operand where it is padded.
    pub(super) fn start(&self, index: &[i64]) -> Vec<i64> {
        let Self::Blocks { block, elements, .. } = self else { return index.to_vec() };
        match elements {
            Some(window) => index.iter().zip(&window.low).map(|(i, low)| i.saturating_sub(*low)).collect(),
            None => index.iter().zip(block).map(|(i, &size)| i.saturating_mul(size as i64)).collect(),
        }
    }

    /// Block index at a step.
    pub(super) fn index(
        &self,
        machine: &mut Machine<'_>,
        coordinates: &[i64],
        prefetched: &[View],
    ) -> Result<Vec<i64>, Stop> {
        let Self::Blocks { transform, .. } = self else { return Ok(Vec::new()) };
        let grid = coordinates.iter().map(|&coordinate| Value::Integer(coordinate));
        let arguments = grid.chain(prefetched.iter().cloned().map(Value::View));
        let results = machine.call(&transform.clone(), arguments)?;
        let integer = |value: &Value| if let Value::Integer(value) = value { *value } else { -1 };
        Ok(results.iter().map(integer).collect())
    }
}

/// Window attributes; unknown ones are rejected.
fn window_attributes(param: &Attr) -> Result<&Attributes, Unrunnable> {
    const KNOWN: [&str; 5] =
        ["transform_indices", "window_bounds", "pipeline_mode", "window_kind", "revisit_mode"];
    let Attr::Dict(params) = param else {
        return Err(Unrunnable::Kernel(format!("window_params holds {param}, which is not a window")));
    };
    match params.iter().find(|(name, _)| !KNOWN.contains(name)) {
        Some((name, value)) => {
            Err(Unrunnable::Kernel(format!("windows with {name} = {value} are not supported")))
        }
        None => Ok(params),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    In,
    Out,
}

/// Runtime state of one operand's window.
pub(super) struct Window {
    number: usize,
    direction: Direction,
    /// The whole operand.
    far: View,
    block: Vec<usize>,
    /// The buffers, stacked along the leading dimension.
    near: View,
    semaphores: usize,
    slot: usize,
    /// Current block.
    index: Option<Vec<i64>>,
    /// Next step's block; `None` after the last.
    next: Option<Vec<i64>>,
    /// Per buffer, bytes of its DMA in flight.
    in_flight: Vec<Option<i64>>,
    elements: Option<ElementWindow>,
    /// Whether blocks of a result are fetched when they are visited again.
    revisits: bool,
    /// Of each block that was left, the last step of its visit.
    visited: HashMap<Vec<i64>, Vec<i64>>,
}

impl Window {
    /// Its blocks in VMEM, if they are fetched ahead: name, padded bytes, and bytes of the whole array.
    pub(super) fn blocks(&self, machine: &Machine<'_>) -> Option<(String, usize, usize)> {
        let near = &machine.buffers[self.near.buffer];
        let (&buffers, block) = near.shape.split_first()?;
        let bits = near.element.map_or(0, |element| 8 * element.bytes());
        let bytes = padded(near.space, block, bits).saturating_mul(buffers);
        (near.space == MemorySpace::Vmem && buffers > 1).then(|| (near.name.clone(), bytes, self.far.bytes()))
    }

    pub(super) fn new(
        machine: &mut Machine<'_>,
        spec: &WindowSpec,
        number: usize,
        name: &str,
        memref: &MemRef,
        far: View,
        direction: Direction,
    ) -> Result<Self, Stop> {
        let block = match spec {
            WindowSpec::Blocks { block, .. } => block.clone(),
            _ => far.shape(),
        };
        let buffers = spec.buffers();
        let (elements, revisits) = match spec {
            WindowSpec::Blocks { elements, revisits, .. } => (elements.clone(), *revisits),
            _ => (None, false),
        };
        let element: Option<Element> = far.element;
        let shape: Vec<usize> = [buffers].into_iter().chain(block.iter().copied()).collect();
        let space = memref.space.unwrap_or(MemorySpace::Vmem);
        let near = machine.allocate(name, space, &shape, element, None)?;
        if direction == Direction::Out {
            machine.track(&near);
            machine.buffers[near.buffer].is_result = true;
        }
        let semaphores = format!("window semaphore of {name}");
        let semaphores = machine.allocate(&semaphores, MemorySpace::Semaphore, &[buffers], None, None)?;
        Ok(Self {
            number,
            direction,
            far,
            block,
            near,
            semaphores: semaphores.buffer,
            slot: 0,
            index: None,
            next: None,
            in_flight: vec![None; buffers],
            elements,
            revisits,
            visited: HashMap::new(),
        })
    }

    fn site(&self, machine: &Machine<'_>) -> Site {
        Site::new(Agent::Window(self.number), None, "window copy", &machine.step)
    }

    /// On-chip and HBM side of a block, clipped at the edge of the operand.
    fn sides(&self, index: &[i64], slot: usize) -> (View, View) {
        if index.is_empty() {
            return (self.buffer(slot), self.far.clone());
        }
        let (mut near, mut far, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
        for (dimension, &index) in index.iter().enumerate().take(self.block.len()) {
            let (on_chip, in_hbm, size) = self.along(dimension, index);
            near.push(on_chip);
            far.push(in_hbm);
            sizes.push(size);
        }
        (self.buffer(slot).slice(near.into_iter(), &sizes), self.far.slice(far.into_iter(), &sizes))
    }

    /// First index in the buffer and in the operand, and extent, of a block along one dimension. A block that
    /// lies out of bounds stays whole, and is reported as such.
    fn along(&self, dimension: usize, index: i64) -> (i64, i64, usize) {
        let (block, extent) = (self.block[dimension], self.far.dims[dimension].extent as i64);
        let Some(window) = &self.elements else {
            let start = index.saturating_mul(block as i64);
            let left = extent.saturating_sub(start);
            return (0, start, if left > 0 { block.min(left as usize) } else { block });
        };
        let start = index.saturating_sub(window.low[dimension]);
        let end = start.saturating_add(block as i64);
        if index < 0 || end > extent.saturating_add(window.high[dimension]) {
            return (0, start, block);
        }
        let (first, last) = (start.clamp(0, extent), end.clamp(0, extent));
        (first - start, first, (last - first) as usize)
    }

    fn buffer(&self, slot: usize) -> View {
        let sizes: Vec<usize> = [1].into_iter().chain(self.block.iter().copied()).collect();
        let starts = [slot as i64].into_iter().chain(self.block.iter().map(|_| 0));
        let mut view = self.near.slice(starts, &sizes);
        view.dims.remove(0);
        view
    }

    fn start_in(&mut self, machine: &mut Machine<'_>, index: &[i64], slot: usize) -> Result<(), Stop> {
        let (near, far) = self.sides(index, slot);
        if near.elements() < self.buffer(slot).elements() {
            // The padding beyond the edge is NaN, but reading it is unavoidable and allowed.
            let whole = self.buffer(slot);
            machine.buffers[whole.buffer].poison(&whole);
            machine.buffers[whole.buffer].mark(&whole, true);
        }
        let bytes = near.bytes() as i64;
        machine.start_copy(far, near, (self.semaphores, slot), Agent::Window(self.number), None)?;
        self.in_flight[slot] = Some(bytes);
        Ok(())
    }

    fn wait(&mut self, machine: &mut Machine<'_>, slot: usize) -> Result<(), Stop> {
        match self.in_flight[slot].take() {
            Some(bytes) => {
                let site = self.site(machine);
                machine.wait((self.semaphores, slot), bytes, site)
            }
            None => Ok(()),
        }
    }

    /// Before a step: waits for its block, prefetches the next one, and returns the current buffer.
    pub(super) fn before(
        &mut self,
        machine: &mut Machine<'_>,
        spec: &WindowSpec,
        coordinates: &[i64],
        next: Option<&[i64]>,
        prefetched: &[View],
    ) -> Result<View, Stop> {
        let first = self.index.is_none();
        let index = match self.next.take() {
            Some(index) => index,
            None => spec.index(machine, coordinates, prefetched)?,
        };
        self.next = next.map(|next| spec.index(machine, next, prefetched)).transpose()?;
        let changed = self.index.as_ref() != Some(&index);
        let following = (self.slot + 1) % self.in_flight.len();
        if changed && !first {
            self.slot = following;
        }
        self.index = Some(index.clone());
        match self.direction {
            Direction::In => self.fetch(machine, &index, changed)?,
            Direction::Out => {
                // The first buffer is fresh: it holds at most what another device has sent since this one
                // entered the kernel.
                if changed && !first {
                    self.wait(machine, self.slot)?;
                    self.enter_block(machine, &index)?;
                }
            }
        }
        Ok(self.buffer(self.slot))
    }

    /// Prepares the buffer for another block of a result: its contents are undefined.
    fn enter_block(&mut self, machine: &mut Machine<'_>, index: &[i64]) -> Result<(), Stop> {
        let whole = self.buffer(self.slot);
        let left = self.visited.get(index).cloned();
        if self.revisits && left.is_some() {
            self.start_in(machine, index, self.slot)?;
            return self.wait(machine, self.slot);
        }
        let buffer = &mut machine.buffers[whole.buffer];
        buffer.poison(&whole);
        buffer.revisited = left.map(|left| Box::new(Visit { block: index.to_vec(), left }));
        if let Some(tracked) = &mut buffer.tracked {
            tracked.writers.clear();
        }
        Ok(())
    }

    /// Reports a block whose second visit leaves elements unwritten: the copy out destroys those of the
    /// first.
    fn check_revisit(&self, machine: &mut Machine<'_>, near: &View) {
        let buffer = &machine.buffers[near.buffer];
        let Some(visit) = buffer.revisited.clone().filter(|_| !buffer.is_written(near)) else { return };
        let reported = |finding: &Finding| matches!(&finding.trouble, Trouble::OutputRevisited { area, .. } if area.buffer == buffer.name);
        if machine.findings.0.iter().any(reported) {
            return;
        }
        let (area, access) = (buffer.area(near), self.site(machine));
        let Visit { block, left } = *visit;
        machine.findings.add(Trouble::OutputRevisited { area, block, left, access });
    }

    fn fetch(&mut self, machine: &mut Machine<'_>, index: &[i64], changed: bool) -> Result<(), Stop> {
        if changed && self.in_flight[self.slot].is_none() {
            self.start_in(machine, index, self.slot)?;
        }
        let following = (self.slot + 1) % self.in_flight.len();
        let next = self.next.clone().filter(|next| next != index && following != self.slot);
        if let Some(next) = next {
            self.start_in(machine, &next, following)?;
        }
        self.wait(machine, self.slot)
    }

    /// After a step: starts copying the block out if the next step uses another one.
    pub(super) fn after(&mut self, machine: &mut Machine<'_>) -> Result<(), Stop> {
        let done = self.next.as_ref() != self.index.as_ref();
        let Some(index) = self.index.clone().filter(|_| self.direction == Direction::Out && done) else {
            return Ok(());
        };
        let (near, far) = self.sides(&index, self.slot);
        self.check_revisit(machine, &near);
        machine.check_block(&near, self.site(machine));
        self.visited.insert(index, machine.step.clone());
        let bytes = near.bytes() as i64;
        machine.start_copy(near, far, (self.semaphores, self.slot), Agent::Window(self.number), None)?;
        self.in_flight[self.slot] = Some(bytes);
        Ok(())
    }

    /// After the last step: drains the DMAs in flight.
    pub(super) fn drain(&mut self, machine: &mut Machine<'_>) -> Result<(), Stop> {
        (0..self.in_flight.len()).try_for_each(|slot| self.wait(machine, slot))
    }
}
