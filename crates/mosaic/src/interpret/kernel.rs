//! A kernel: its arguments, its grid and its steps.

use std::sync::Arc;

use super::{
    Options, Outcome, OutputAlias, SimulateError, Tensor,
    devices::{BARRIER, Link},
    element::Element,
    finding::Trouble,
    given::{check_element, check_operand, grid_extent},
    kernel_attributes,
    machine::{Machine, Stop},
    program::{Code, Program, Unrunnable},
    track::{element_bits, padded},
    value::Value,
    view::View,
    window::{Direction, Window, WindowSpec},
    writers::ParallelGrid,
};
use crate::{
    attribute::Attr,
    ir::Module,
    types::{DYNAMIC, MemRef, MemorySpace, Type},
};

/// A compiled kernel.
pub(crate) struct Kernel {
    name: String,
    pub(super) program: Program,
    code: Arc<Code>,
    /// Extents of the grid; `None` for those that the first operands give.
    pub(super) grid: Vec<Option<usize>>,
    /// Scalar-prefetch operands, in SMEM before the kernel starts.
    pub(super) prefetched: usize,
    pub(super) windows: Vec<WindowSpec>,
    /// Whether each grid dimension is parallel.
    parallel: Vec<bool>,
}

/// Operations charged for a grid step, and for each window moved.
const OPERATIONS_PER_WINDOW: u64 = 16;

fn refuse(message: impl Into<String>) -> Unrunnable {
    Unrunnable::Kernel(message.into())
}

impl Kernel {
    pub(crate) fn new(module: &Module) -> Result<Self, Unrunnable> {
        let function = kernel_attributes::kernel_function(module)?;
        kernel_attributes::check_attributes(function)?;
        let program = Program::new(module)?;
        let code = program.function(&function.name)?.clone();
        let count = |name: &str| match function.attributes.get(name) {
            Some(Attr::Integer(value, _)) if *value >= 0 => Ok(*value as usize),
            None => Ok(0),
            Some(other) => Err(refuse(format!("kernel attribute '{name}' is not a count: {other}"))),
        };
        let (prefetched, scratch) = (count("scalar_prefetch")?, count("scratch_operands")?);
        let grid = kernel_attributes::grid(function)?;
        let arguments = code.argument_types.len();
        let others = grid.len().saturating_add(prefetched).saturating_add(scratch);
        let Some(operands) = arguments.checked_sub(others) else {
            return Err(refuse(format!(
                "the kernel has {arguments} arguments, fewer than its grid, prefetched and scratch operands"
            )));
        };
        let first = grid.len() + prefetched;
        let windows =
            WindowSpec::of(function, &program, &code.argument_types[first..first + operands], first)?;
        let name = module.name.as_ref().unwrap_or(&function.name).clone();
        let parallel = kernel_attributes::parallel_dimensions(function);
        let kernel = Self { name, program, code, grid, prefetched, windows, parallel };
        kernel.check_arguments()?;
        Ok(kernel)
    }

    /// Name of the module, or else of the function.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Grid indices are integers, all other arguments memrefs.
    fn check_arguments(&self) -> Result<(), Unrunnable> {
        for (number, ty) in self.code.argument_types.iter().enumerate() {
            let name = &self.code.argument_names[number];
            let fits = match ty {
                Type::Integer(32) => number < self.grid.len(),
                Type::MemRef(memref) => {
                    let semaphore = matches!(*memref.element, Type::DmaSemaphore | Type::Semaphore);
                    number >= self.grid.len() && (semaphore || Element::of(ty).is_some())
                }
                _ => false,
            };
            if !fits {
                return Err(refuse(format!(
                    "argument %{name} of the kernel has type {ty}, which is not supported"
                )));
            }
        }
        Ok(())
    }

    /// Ranks of the operands and results, in order; extents of a dynamic grid come first.
    pub(crate) fn operand_ranks(&self) -> Vec<usize> {
        let first = self.grid.len();
        let operands = self.prefetched + self.windows.len();
        let extents = self.grid.iter().filter(|extent| extent.is_none()).map(|_| 0);
        let ranks = self.code.argument_types[first..first + operands].iter().map(|ty| ty.shape().len());
        extents.chain(ranks).collect()
    }

    /// Runs the kernel on one device; `link` connects it to others.
    pub(crate) fn run(
        &self,
        inputs: &[Tensor],
        options: &Options<'_>,
        link: &mut Option<Link>,
    ) -> Result<Outcome, SimulateError> {
        if let (None, Some(refused)) = (options.mxu_control, &self.program.mxu_control) {
            return Err(Unrunnable::clone(refused).into());
        }
        let mut machine = Machine::new(&self.program, options, inputs);
        machine.link = link.take().or_else(|| self.program.communicates.then(Link::alone));
        let mut bound = Bound::default();
        let ran = self.execute(&mut machine, inputs, options, &mut bound);
        let completed = match ran {
            Ok(()) => true,
            Err(Stop::Halted) => false,
            Err(stop) => return Err(stop.into()),
        };
        machine.leave_kernel(completed)?;
        if completed {
            machine.settle();
            machine.leave_mxus();
        }
        *link = machine.link.take();
        if let Some(device) = link.as_ref().and_then(Link::name) {
            machine.findings.name_device(device);
        }
        let is_dynamic = self.grid.contains(&None);
        Ok(finish(machine, &bound, completed, is_dynamic))
    }

    fn execute(
        &self,
        machine: &mut Machine<'_>,
        inputs: &[Tensor],
        options: &Options<'_>,
        bound: &mut Bound,
    ) -> Result<(), Stop> {
        self.bind(machine, inputs, options, bound)?;
        if self.program.has_barrier {
            machine.barrier = Some(machine.allocate(BARRIER, MemorySpace::Semaphore, &[], None, None)?);
        }
        machine.enter_kernel(self.program.has_barrier)?;
        self.steps(machine, bound)
    }

    /// Allocates memory for every argument.
    fn bind(
        &self,
        machine: &mut Machine<'_>,
        inputs: &[Tensor],
        options: &Options<'_>,
        bound: &mut Bound,
    ) -> Result<(), Stop> {
        let operands = self.prefetched + self.windows.len();
        let inputs = self.bind_grid(inputs, bound)?;
        machine.grid.clone_from(&bound.grid);
        machine.parallel = ParallelGrid::new(&self.parallel, &bound.grid);
        self.check_memory(machine)?;
        if inputs.len() < self.prefetched || inputs.len() > operands {
            return Err(Stop::Operands(format!(
                "the kernel takes at most {operands} operands, {} of them prefetched, but {} were given",
                self.prefetched,
                inputs.len()
            )));
        }
        machine.take_values(&self.code)?;
        let (prefetched, inputs) = inputs.split_at(self.prefetched);
        for (number, tensor) in prefetched.iter().enumerate() {
            let (name, memref) = self.argument(self.grid.len() + number);
            check_operand(name, memref, tensor)?;
            let space = memref.space.unwrap_or(MemorySpace::Smem);
            bound.prefetched.push(machine.allocate_filled(name, space, tensor)?);
            bound.bytes += tensor.bytes.len();
        }
        let first_scratch = self.grid.len() + operands;
        for number in first_scratch..self.code.argument_types.len() {
            let (name, memref) = self.argument(number);
            let element = Element::of(&self.code.argument_types[number]);
            if memref.shape.contains(&DYNAMIC) {
                return Err(Stop::Operands(format!("scratch operand %{name} has a dynamic extent")));
            }
            let space = memref.space.unwrap_or(MemorySpace::Vmem);
            let view = machine.allocate(name, space, &memref.shape, element, None)?;
            machine.track(&view);
            bound.scratch.push(view);
        }
        let mut far_inputs = Vec::new();
        for (number, spec) in self.windows.iter().enumerate() {
            let (name, memref) = self.operand(number);
            let (far, direction) = match inputs.get(number) {
                Some(tensor) => {
                    let far = self.far_input(machine, number, tensor)?;
                    far_inputs.push(far.clone());
                    (far, Direction::In)
                }
                None => {
                    let output = number - inputs.len();
                    let shapes = options.output_shapes.as_ref();
                    let known = shapes.and_then(|shapes| shapes.get(output));
                    let alias = options.aliases.iter().find(|alias| alias.output == output);
                    let far = match alias {
                        Some(alias) => self.aliased(number, alias, known, &far_inputs)?,
                        None => self.far_output(machine, number, known, bound)?,
                    };
                    (far, Direction::Out)
                }
            };
            bound.bytes += far.bytes();
            machine.buffers[far.buffer].is_far = true;
            if direction == Direction::Out {
                bound.outputs.push(far.buffer);
            }
            bound.windows.push(match spec {
                WindowSpec::Direct => Bind::Direct(far),
                spec => {
                    Bind::Window(Box::new(Window::new(machine, spec, number, name, memref, far, direction)?))
                }
            });
        }
        let blocks = bound.windows.iter().filter_map(|bind| match bind {
            Bind::Window(window) => window.blocks(machine),
            Bind::Direct(_) => None,
        });
        machine.check_blocks(blocks.collect())
    }

    /// Compares the kernel's buffers with the sizes of VMEM and SMEM.
    fn check_memory(&self, machine: &mut Machine<'_>) -> Result<(), Stop> {
        for space in [MemorySpace::Vmem, MemorySpace::Smem] {
            let mut buffers = Vec::new();
            for number in self.grid.len()..self.code.argument_types.len() {
                let (name, memref) = self.argument(number);
                let window = number.checked_sub(self.grid.len() + self.prefetched);
                let copies =
                    window.and_then(|window| self.windows.get(window)).map_or(1, WindowSpec::buffers);
                if memref.space == Some(space) {
                    let bytes = padded(space, &memref.shape, element_bits(&memref.element));
                    buffers.push((name.to_owned(), bytes.saturating_mul(copies)));
                }
            }
            machine.check_memory(space, buffers, None)?;
        }
        Ok(())
    }

    /// Takes the extents of a dynamic grid from the first operands; returns the others.
    fn bind_grid<'t>(&self, inputs: &'t [Tensor], bound: &mut Bound) -> Result<&'t [Tensor], Stop> {
        let dynamic = self.grid.iter().filter(|extent| extent.is_none()).count();
        let Some((extents, inputs)) = inputs.split_at_checked(dynamic) else {
            return Err(Stop::Operands(format!(
                "the first {dynamic} operands are extents of the grid, but {} were given",
                inputs.len()
            )));
        };
        let mut extents = extents.iter().map(grid_extent);
        bound.grid = self
            .grid
            .iter()
            .map(|extent| extent.map_or_else(|| extents.next().unwrap_or(Ok(0)), Ok))
            .collect::<Result<_, Stop>>()?;
        Ok(inputs)
    }

    pub(super) fn argument(&self, number: usize) -> (&str, &MemRef) {
        match &self.code.argument_types[number] {
            Type::MemRef(memref) => (&self.code.argument_names[number], memref),
            other => unreachable!("checked to be a memref, not {other}"),
        }
    }

    /// A whole operand in HBM.
    fn far_input(&self, machine: &mut Machine<'_>, number: usize, tensor: &Tensor) -> Result<View, Stop> {
        let (name, memref) = self.operand(number);
        match &self.windows[number] {
            WindowSpec::Blocks { .. } => check_element(name, memref, tensor)?,
            _ => check_operand(name, memref, tensor)?,
        }
        let (far_name, space) = self.far_name(number);
        machine.allocate_filled(&far_name, space, tensor)
    }

    /// A whole result in HBM, uninitialized.
    fn far_output(
        &self,
        machine: &mut Machine<'_>,
        number: usize,
        known: Option<&Vec<usize>>,
        bound: &Bound,
    ) -> Result<View, Stop> {
        let (name, memref) = self.operand(number);
        let spec = &self.windows[number];
        let shape = match (known, spec) {
            (Some(shape), _) => shape.clone(),
            (None, WindowSpec::Blocks { .. }) => self.covered(machine, spec, bound)?,
            (None, _) => memref.shape.clone(),
        };
        let element = Element::of(&Type::MemRef(memref.clone()));
        if shape.len() != memref.shape.len() || shape.contains(&DYNAMIC) || element.is_none() {
            return Err(Stop::Operands(format!("a result of shape {shape:?} does not fit %{name}")));
        }
        let (far_name, space) = self.far_name(number);
        machine.allocate(&far_name, space, &shape, element, None)
    }

    /// The memory of an operand, for the result that shares it.
    fn aliased(
        &self,
        number: usize,
        alias: &OutputAlias,
        known: Option<&Vec<usize>>,
        inputs: &[View],
    ) -> Result<View, Stop> {
        let (name, memref) = self.operand(number);
        // Extents of a dynamic grid and scalar-prefetch operands come before the operands with windows.
        let first = self.prefetched + self.grid.iter().filter(|extent| extent.is_none()).count();
        let shared = alias.operand.checked_sub(first).and_then(|operand| inputs.get(operand));
        let element = Element::of(&Type::MemRef(memref.clone()));
        let fits = |view: &&View| view.element == element && known.is_none_or(|known| *known == view.shape());
        shared.filter(fits).cloned().ok_or_else(|| {
            Stop::Operands(format!(
                "result %{name} cannot share memory with operand {}: their types differ",
                alias.operand
            ))
        })
    }

    /// Name and memory space of the memory behind an operand.
    fn far_name(&self, number: usize) -> (String, MemorySpace) {
        let (name, memref) = self.operand(number);
        match self.windows[number] {
            WindowSpec::Direct => (name.to_owned(), memref.space.unwrap_or(MemorySpace::Any)),
            _ => (format!("operand {number} behind {name}"), MemorySpace::Hbm),
        }
    }

    pub(super) fn operand(&self, number: usize) -> (&str, &MemRef) {
        self.argument(self.grid.len() + self.prefetched + number)
    }

    /// Shape covered by the blocks of all steps.
    pub(super) fn covered(
        &self,
        machine: &mut Machine<'_>,
        spec: &WindowSpec,
        bound: &Bound,
    ) -> Result<Vec<usize>, Stop> {
        let WindowSpec::Blocks { block, .. } = spec else { unreachable!("only blocks cover") };
        let mut shape = vec![0; block.len()];
        for step in 0..bound.step_count() {
            machine.count_operations(OPERATIONS_PER_WINDOW);
            let index = spec.index(machine, &bound.coordinates(step), &bound.prefetched)?;
            for ((extent, start), size) in shape.iter_mut().zip(spec.start(&index)).zip(block) {
                *extent = (*extent).max((start.max(0) as usize).saturating_add(*size));
            }
        }
        Ok(shape)
    }

    fn steps(&self, machine: &mut Machine<'_>, bound: &mut Bound) -> Result<(), Stop> {
        let steps = bound.step_count();
        machine.frame = vec![Value::Unset; self.code.slots];
        let slots = &self.code.body.arguments;
        let fixed = bound.prefetched.iter().chain(&bound.scratch).cloned();
        let first_window = self.grid.len() + self.prefetched;
        let places = (self.grid.len()..first_window).chain(first_window + self.windows.len()..);
        for (place, view) in places.zip(fixed) {
            machine.frame[slots[place] as usize] = Value::View(view);
        }
        for step in 0..steps {
            machine.count_operations(OPERATIONS_PER_WINDOW * (1 + self.windows.len() as u64));
            let coordinates = bound.coordinates(step);
            let next = (step + 1 < steps).then(|| bound.coordinates(step + 1));
            machine.begin_step(&coordinates);
            for (place, &coordinate) in coordinates.iter().enumerate() {
                machine.frame[slots[place] as usize] = Value::Integer(coordinate);
            }
            for (number, window) in bound.windows.iter_mut().enumerate() {
                let view = match window {
                    Bind::Direct(view) => view.clone(),
                    Bind::Window(window) => window.before(
                        machine,
                        &self.windows[number],
                        &coordinates,
                        next.as_deref(),
                        &bound.prefetched,
                    )?,
                };
                machine.frame[slots[first_window + number] as usize] = Value::View(view);
            }
            machine.run(&self.code.body)?;
            for window in &mut bound.windows {
                if let Bind::Window(window) = window {
                    window.after(machine)?;
                }
            }
        }
        bound.windows.iter_mut().try_for_each(|window| match window {
            Bind::Window(window) => window.drain(machine),
            Bind::Direct(_) => Ok(()),
        })
    }
}

/// The grid, and views of the arguments.
#[derive(Default)]
pub(super) struct Bound {
    grid: Vec<usize>,
    prefetched: Vec<View>,
    windows: Vec<Bind>,
    scratch: Vec<View>,
    /// Buffers of the results.
    outputs: Vec<usize>,
    /// Bytes of all operands and results.
    bytes: usize,
}

impl Bound {
    /// The steps of a grid, with what their index maps see.
    pub(super) fn new(grid: Vec<usize>, prefetched: Vec<View>) -> Self {
        Self { grid, prefetched, ..Self::default() }
    }

    fn step_count(&self) -> usize {
        self.grid.iter().fold(1, |all: usize, &extent| all.saturating_mul(extent))
    }

    /// Grid indices of a step; the last one varies fastest.
    fn coordinates(&self, step: usize) -> Vec<i64> {
        let mut rest = step;
        let mut indices: Vec<i64> = self
            .grid
            .iter()
            .rev()
            .map(|&extent| {
                let index = rest % extent;
                rest /= extent;
                index as i64
            })
            .collect();
        indices.reverse();
        indices
    }
}

enum Bind {
    /// The kernel receives the whole operand and copies from it itself.
    Direct(View),
    Window(Box<Window>),
}

fn finish(mut machine: Machine<'_>, bound: &Bound, completed: bool, is_dynamic: bool) -> Outcome {
    let mut outputs = Vec::new();
    // A result that holds what an uninitialized element was computed into is not reported twice.
    let is_explained =
        machine.findings.0.iter().any(|finding| matches!(finding.trouble, Trouble::ReadOfUnwritten { .. }));
    for &number in &bound.outputs {
        let buffer = &mut machine.buffers[number];
        if let Some((elements, ranges)) = buffer.unwritten().filter(|_| completed && !is_explained) {
            let area =
                super::finding::Area { buffer: buffer.name.clone(), ranges: Some(ranges), device: None };
            let of = buffer.shape.iter().product();
            let dynamic_grid = is_dynamic.then(|| bound.grid.clone());
            machine.findings.add(Trouble::OutputNotWritten { area, elements, of, dynamic_grid });
        }
        let element = buffer.element.expect("results hold numbers");
        outputs.push(Tensor {
            element,
            shape: buffer.shape.clone(),
            bytes: std::mem::take(&mut buffer.bytes),
        });
    }
    let (operations, mut notes) = (machine.operations(), machine.program.notes.clone());
    notes.append(&mut machine.notes);
    let timeline = machine.clock.finish(bound.bytes as u64);
    let findings = machine.findings.located(&machine.program.sources);
    let mut prints = machine.prints;
    prints.iter_mut().for_each(|print| print.site.locate(&machine.program.sources));
    Outcome { outputs, findings, completed, timeline, operations, notes, prints, kernels: Vec::new() }
}
