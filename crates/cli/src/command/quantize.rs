//! `octile quantize`, `octile convert` and `octile dequantize`.

use std::time::{Duration, Instant};

use anyhow::Result;
use octile_checkpoint::{
    Checkpoint, CheckpointPlan, Convert, ExpertLayout, Format, OtherFile, Outcome, Output, Quantize, Request,
    ScaleKind,
};
use octile_core::FloatKind;

use crate::{
    args::{
        ConvertArgs, DequantizeArgs, FloatChoice, FormatChoice, LayoutChoice, OutputArgs, QuantizeArgs,
        ScaleKindChoice,
    },
    progress::Progress,
};

/// What to do with a checkpoint.
#[derive(Debug)]
pub struct CheckpointRequest {
    request: Request,
    place: OutputArgs,
}

/// What was written, or would be in a dry run.
#[derive(Debug)]
pub struct CheckpointReport {
    /// Output path, as given by the user.
    pub output: std::path::PathBuf,
    /// Whether the input is one file, without a `config.json`.
    pub is_one_file: bool,
    /// The plan.
    pub plan: CheckpointPlan,
    /// Files that are copied.
    pub others: Vec<OtherFile>,
    /// Outcome and duration; `None` for a dry run.
    pub done: Option<(Outcome, Duration)>,
}

impl CheckpointRequest {
    /// Converts the arguments of `octile quantize`.
    pub fn quantize(args: &QuantizeArgs) -> Self {
        let request = Request::Quantize(Quantize {
            format: format(args.format),
            scales: scales(args.scales),
            skip: args.skip.clone(),
            only: args.only.clone(),
            expert_layout: args.expert_layout.map(|layout| match layout {
                LayoutChoice::OutIn => ExpertLayout::OutIn,
                LayoutChoice::InOut => ExpertLayout::InOut,
            }),
        });
        Self { request, place: args.place.clone() }
    }

    /// Converts the arguments of `octile convert`.
    pub fn convert(args: &ConvertArgs) -> Self {
        let (format, scales) = (args.format.map(format), args.scales.map(scales));
        let request = Request::Convert(Convert { format, scales, requantize: args.requantize });
        Self { request, place: args.place.clone() }
    }

    /// Converts the arguments of `octile dequantize`.
    pub fn dequantize(args: &DequantizeArgs) -> Self {
        let kind = match args.dtype {
            FloatChoice::Bf16 => FloatKind::Bf16,
            FloatChoice::F16 => FloatKind::F16,
            FloatChoice::F32 => FloatKind::F32,
        };
        Self { request: Request::Dequantize(kind), place: args.place.clone() }
    }
}

fn format(choice: FormatChoice) -> Format {
    match choice {
        FormatChoice::Fp8 => Format::Fp8,
        FormatChoice::CompressedTensors => Format::CompressedTensors,
    }
}

fn scales(choice: ScaleKindChoice) -> ScaleKind {
    match choice {
        ScaleKindChoice::F32 => ScaleKind::F32,
        ScaleKindChoice::Ue8m0 => ScaleKind::Ue8m0,
    }
}

/// Adapter between the progress bar and the library.
pub(super) struct Bar(pub(super) Progress);

impl octile_checkpoint::Progress for Bar {
    fn advance(&self, bytes: u64) {
        self.0.advance(bytes);
    }

    fn begin(&self, shard: &str) {
        self.0.doing(shard);
    }
}

/// Plans the conversion, and writes the output unless this is a dry run.
pub fn run(request: &CheckpointRequest) -> Result<CheckpointReport> {
    let start = Instant::now();
    let OutputArgs { input, output: path, dry_run, force, threads } = request.place.clone();
    let checkpoint = Checkpoint::open(&input)?;
    let plan = CheckpointPlan::new(&checkpoint, &request.request)?;
    let output = Output { path: path.clone(), force, threads: threads.map(usize::from) };
    CheckpointPlan::check_output(&checkpoint, &output)?;
    let others = CheckpointPlan::other_files(&checkpoint)?;
    let done = if dry_run {
        None
    } else {
        let bar = Bar(Progress::of_bytes(plan.input_bytes));
        Some((octile_checkpoint::write(&checkpoint, &plan, &output, &bar)?, start.elapsed()))
    };
    Ok(CheckpointReport { output: path, is_one_file: !checkpoint.is_folder(), plan, others, done })
}
