//! Runs Mosaic kernels on this machine, and says what is wrong with them.
//!
//! The kernel's text is run as it stands: its grid, its windows as explicit double-buffered copies, its own copies as
//! agents beside the core, its semaphores with their counts. What the result depends on is checked whatever order
//! things happened to run in: see [`Trouble`] for what is found.

mod admit;
mod ask;
mod budget;
mod copies;
mod element;
mod engine;
mod finding;
mod flight;
mod host;
mod kernel;
mod live;
mod machine;
mod memory;
mod ops;
mod places;
mod program;
mod tensor;
mod timeline;
mod value;
mod view;
mod window;

pub use element::Element;
pub use engine::{Engine, Portable, Strided};
pub use finding::{Agent, Area, Finding, Note, Range, Site, Trouble};
pub use ops::{OpKind, ScalarOp, op_kind, supported as supported_operations};
pub use program::{Unrunnable, check_ops};
pub use tensor::Tensor;
pub use timeline::{Event, Figures, Timeline, Work};

use octile_core::device::tpu::TpuRates;

use crate::{
    ir::{Module, Place},
    limits::{BYTES_PER_OPERAND_BYTE, DEFAULT_BYTES, DEFAULT_OPERATIONS},
};

/// How to run a kernel.
#[derive(Clone)]
pub struct Options<'a> {
    /// Whether to look for races. Semaphores, bounds and unwritten memory are checked in any case.
    pub races: bool,
    /// Whether to keep every event of the timeline, and not only the sums.
    pub events: bool,
    /// How fast the modelled chip is.
    pub rates: TpuRates,
    /// What multiplies matrices.
    pub engine: &'a dyn Engine,
    /// Shapes of the results, where the text does not tell: those of windows that do not fill the last block.
    pub output_shapes: Option<Vec<Vec<usize>>>,
    /// After so many operations a kernel is stopped: see [`DEFAULT_OPERATIONS`] for what counts.
    pub max_operations: u64,
    /// Bytes that a run may take of this machine; where there is none, [`DEFAULT_BYTES`] and
    /// [`BYTES_PER_OPERAND_BYTE`] for each byte of what it is given.
    pub max_bytes: Option<usize>,
}

impl Options<'_> {
    /// Everything is checked, the timeline is summed up only.
    pub fn new(rates: TpuRates) -> Self {
        Self {
            races: true,
            events: false,
            rates,
            engine: &Portable,
            output_shapes: None,
            max_operations: DEFAULT_OPERATIONS,
            max_bytes: None,
        }
    }

    /// Bytes that a run on these operands may take.
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

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The results. Where the run ended early, some of it is not written.
    pub outputs: Vec<Tensor>,
    /// What is wrong, in the order in which it was found.
    pub findings: Vec<Finding>,
    /// Whether the kernel ran to its end.
    pub completed: bool,
    /// When things happened on the modelled clock.
    pub timeline: Timeline,
    /// Operations executed, as [`Options::max_operations`] counts them.
    pub operations: u64,
    /// Where the chip computes something else than the text may suggest.
    pub notes: Vec<Note>,
}

/// A kernel and operands that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulateError {
    /// The module.
    #[error(transparent)]
    Unrunnable(#[from] Unrunnable),
    /// The operands.
    #[error("{0}")]
    Operands(String),
    /// Something that the kernel does while it runs.
    #[error("{}{message}", .place.map(|place| format!("{place}: ")).unwrap_or_default())]
    Fault {
        /// Where.
        place: Option<Place>,
        /// What.
        message: String,
    },
}

/// The text of the kernel inside a StableHLO module, where there is one.
pub fn embedded_kernel(module: &Module) -> Option<String> {
    let mut text = None;
    for function in &module.functions {
        function.walk(&mut |op| {
            if op.name == "stablehlo.custom_call" && text.is_none() {
                text = ops::embedded_text(op);
            }
        });
    }
    text
}

/// Runs `module` on `inputs`, which are in the order of its arguments: a kernel, or the module around one.
pub fn simulate(module: &Module, inputs: &[Tensor], options: &Options<'_>) -> Result<Outcome, SimulateError> {
    match host::entry(module) {
        Some(entry) => host::run(module, entry, inputs, options),
        None => kernel::Kernel::new(module)?.run(inputs, options),
    }
}
