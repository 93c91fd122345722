//! Interprets Mosaic kernels on the host and reports their defects.
//!
//! The kernel runs as written: its grid, its windows as explicit double-buffered DMAs, its own DMAs as
//! concurrent agents, its semaphores with their counts. Data races are detected whatever order things
//! happened to run in; [`Trouble`] lists what is found.

mod admit;
mod array;
mod ask;
mod budget;
mod call_types;
mod copies;
mod devices;
mod element;
mod embedded;
mod engine;
mod finding;
mod flight;
mod given;
mod host;
mod kernel;
mod kernel_attributes;
mod live;
mod machine;
mod memory;
mod mxu;
mod naming;
mod ops;
mod places;
mod program;
mod signature;
mod tensor;
mod timeline;
mod track;
mod undefined;
mod value;
mod view;
mod window;
mod writers;

pub use call_types::CallTypes;
pub use devices::mesh_devices;
pub use element::Element;
pub use embedded::{EmbeddedKernel, OutputAlias, embedded_kernels};
pub use engine::{Engine, Portable, Strided};
pub use finding::{Agent, Area, Finding, MxuMisuse, Note, Print, Range, Site, Trouble, Waiter};
pub use naming::{KernelNames, allocations, kernel_entry, name_buffers};
pub(crate) use ops::{NO_MXU_CONTROL, controls_mxu};
pub use ops::{OpKind, ScalarOp, op_kind, supported as supported_operations};
pub use program::{Unrunnable, check_ops};
pub use signature::{OperandSpec, Signature};
pub use tensor::Tensor;
pub use timeline::{Event, Figures, Timeline, Work};

use octile_core::device::tpu::{MxuControl, TpuChip, TpuRates};

use crate::{
    ir::{Module, Place},
    limits::{BYTES_PER_OPERAND_BYTE, DEFAULT_BYTES, DEFAULT_OPERATIONS},
};

/// Interpreter options.
#[derive(Clone)]
pub struct Options<'a> {
    /// Detect data races. Semaphores, bounds and uninitialized reads are always checked.
    pub races: bool,
    /// Keep every timeline event, not only the totals.
    pub events: bool,
    /// Rates of the modelled chip.
    pub rates: TpuRates,
    /// Control that a kernel may take of the MXUs; one that takes it is refused if `None`.
    pub mxu_control: Option<MxuControl>,
    /// Matmul backend.
    pub engine: &'a dyn Engine,
    /// Result shapes that the text does not state: windows that do not fill the last block.
    pub output_shapes: Option<Vec<Vec<usize>>>,
    /// Results that share memory with operands of a kernel.
    pub aliases: Vec<OutputAlias>,
    /// Number of devices that run the module. A module with a device mesh runs on all devices of the mesh.
    pub devices: usize,
    /// Operation limit; see [`DEFAULT_OPERATIONS`] for what counts.
    pub max_operations: u64,
    /// Memory limit in bytes; by default [`DEFAULT_BYTES`] plus [`BYTES_PER_OPERAND_BYTE`] per operand byte.
    pub max_bytes: Option<usize>,
    /// Bytes of VMEM that the kernel may use; not checked if `None`.
    pub vmem_limit: Option<usize>,
    /// Bytes of VMEM for the blocks of operands and results of a called kernel that sets no limit itself; not
    /// checked if `None`.
    pub vmem_default: Option<usize>,
    /// Bytes of VMEM for the blocks of operands and results of this kernel; not checked if `None`.
    pub vmem_blocks: Option<usize>,
    /// Bytes of SMEM that the kernel may use; not checked if `None`.
    pub smem_limit: Option<usize>,
}

impl Options<'_> {
    /// Enables all checks and keeps timeline totals only.
    pub fn new(rates: TpuRates) -> Self {
        Self {
            races: true,
            events: false,
            rates,
            mxu_control: Some(MxuControl::TPU7X),
            engine: &Portable,
            output_shapes: None,
            aliases: Vec::new(),
            devices: 1,
            max_operations: DEFAULT_OPERATIONS,
            max_bytes: None,
            vmem_limit: None,
            vmem_default: None,
            vmem_blocks: None,
            smem_limit: None,
        }
    }

    /// Enables all checks, also of the chip's memory sizes.
    pub fn for_chip(chip: &TpuChip) -> Self {
        Self {
            vmem_limit: Some(chip.vmem_physical),
            vmem_default: Some(chip.vmem_default),
            smem_limit: Some(chip.smem),
            mxu_control: chip.mxu_control,
            ..Self::new(chip.rates)
        }
    }

    /// Memory budget for a run on these operands.
    fn bytes_for(&self, inputs: &[Tensor]) -> usize {
        let given = inputs.iter().map(|tensor| tensor.bytes.len());
        let told = self.output_shapes.iter().flatten().map(|shape| {
            let elements = shape.iter().fold(1usize, |all, &extent| all.saturating_mul(extent));
            elements.saturating_mul(size_of::<f32>())
        });
        let known = given.chain(told).fold(0, usize::saturating_add);
        self.max_bytes.unwrap_or(DEFAULT_BYTES.saturating_add(known.saturating_mul(BYTES_PER_OPERAND_BYTE)))
    }
}

/// Outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Results; partly uninitialized if the run ended early.
    pub outputs: Vec<Tensor>,
    /// Findings of all kernels, in detection order. Those of the surrounding module come last.
    pub findings: Vec<Finding>,
    /// Whether every kernel ran to its end.
    pub completed: bool,
    /// The modelled timeline of all kernels, one after the other.
    pub timeline: Timeline,
    /// Operations executed, as counted by [`Options::max_operations`].
    pub operations: u64,
    /// Where the chip computes something other than the text suggests.
    pub notes: Vec<Note>,
    /// What the kernel printed, in order.
    pub prints: Vec<Print>,
    /// The kernels that ran, in order; a kernel that is called twice appears twice.
    pub kernels: Vec<KernelRun>,
}

impl Outcome {
    /// Whether results depend on the chip's random bits, which are not specified: they cannot be compared.
    pub fn has_random_bits(&self) -> bool {
        self.notes.iter().any(|note| note.op == ops::RANDOM_BITS)
    }
}

/// One run of one kernel. Lines in its findings and notes are those of its own text.
#[derive(Clone, Debug)]
pub struct KernelRun {
    /// Name of the kernel, as in [`embedded_kernels`], or of the function if the module is a kernel.
    pub name: String,
    /// Whether it ran to its end.
    pub completed: bool,
    /// Its findings, in detection order.
    pub findings: Vec<Finding>,
    /// Its notes.
    pub notes: Vec<Note>,
    /// Operations executed.
    pub operations: u64,
    /// First cycle in [`Outcome::timeline`].
    pub start: f64,
    /// Totals of its timeline.
    pub figures: Figures,
}

impl KernelRun {
    /// What `outcome`, of the kernel `name`, says about it; it began at cycle `start`.
    pub(crate) fn of(name: &str, outcome: &Outcome, start: f64) -> Self {
        Self {
            name: name.to_owned(),
            completed: outcome.completed,
            findings: outcome.findings.clone(),
            notes: outcome.notes.clone(),
            operations: outcome.operations,
            start,
            figures: outcome.timeline.figures.clone(),
        }
    }
}

/// Why a kernel could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimulateError {
    /// The module is not supported or invalid.
    #[error(transparent)]
    Unrunnable(#[from] Unrunnable),
    /// The operands do not match.
    #[error("{0}")]
    Operands(String),
    /// The kernel did something illegal at run time.
    #[error("{}{message}", .place.map(|place| format!("{place}: ")).unwrap_or_default())]
    Fault {
        /// Position.
        place: Option<Place>,
        /// Description.
        message: String,
    },
}

/// Runs `module`, a kernel or the module around one, on `inputs` in argument order.
///
/// With several [devices](Options::devices), an operand that has one more dimension than the module expects,
/// as long as there are devices, gives each device its own part; every other operand is the same on all of
/// them. Results get such a dimension.
pub fn simulate(module: &Module, inputs: &[Tensor], options: &Options<'_>) -> Result<Outcome, SimulateError> {
    let executable = Executable::new(module)?;
    match options.devices {
        0 | 1 => executable.run(inputs, options, None),
        _ => devices::simulate(&executable, inputs, options),
    }
}

/// A compiled module: a kernel, or the program around some. All devices run the same.
enum Executable {
    Host(host::HostProgram),
    Kernel(Box<kernel::Kernel>),
}

impl Executable {
    fn new(module: &Module) -> Result<Self, Unrunnable> {
        Ok(match host::entry(module) {
            Some(_) => Self::Host(host::HostProgram::new(module)?),
            None => Self::Kernel(Box::new(kernel::Kernel::new(module)?)),
        })
    }

    /// Ranks of the operands and results, in order.
    fn operand_ranks(&self) -> Vec<usize> {
        match self {
            Self::Host(program) => program.operand_ranks(),
            Self::Kernel(kernel) => kernel.operand_ranks(),
        }
    }

    /// Runs it on one device; `link` connects it to others.
    fn run(
        &self,
        inputs: &[Tensor],
        options: &Options<'_>,
        mut link: Option<devices::Link>,
    ) -> Result<Outcome, SimulateError> {
        match self {
            Self::Host(program) => program.run(inputs, options, link),
            Self::Kernel(kernel) => {
                let mut outcome = kernel.run(inputs, options, &mut link)?;
                outcome.kernels = vec![KernelRun::of(kernel.name(), &outcome, 0.0)];
                Ok(outcome)
            }
        }
    }
}
