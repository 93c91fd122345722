//! One matmul: argument checks, plan, quantization, and the work of each thread.

use std::ops::Range;

use octile_core::{
    MatMut, Problem, QuantizeError, ScaleLayout, Strategy,
    plan::{
        BufferId,
        cpu::{CpuChoice, CpuPlan},
    },
    problem::ProblemError,
    quantize::largest_magnitude,
};

use super::{
    Activation, Cpu, CpuError, Output, WeightRef, Workspace,
    auto::Auto,
    claims::{Claimer, Claims},
    dma::Dma,
    executor::{Chunks, Team},
    isa,
    memory::Line,
    nest::{self, Call, Out, SharedWork, TileScales, Values, X},
    quantize::{Quantization, Quantize},
    smem::{ScaleTable, Smem},
    strip::Strip,
    workspace::{Carver, Scratch, thread_lines},
};

/// Operands that do not match, or cannot be quantized.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MultiplyError {
    /// The two K differ.
    #[error("x has {x} columns but the weight has {weight}: both must be K")]
    Depth {
        /// Columns of x.
        x: usize,
        /// Columns of the weight.
        weight: usize,
    },
    /// The output has another shape than the result.
    #[error(
        "the result is {m} x {n}, but the output is {rows} x {cols}: pass an output of the result's shape"
    )]
    OutputShape {
        /// Rows of x.
        m: usize,
        /// Rows of the weight.
        n: usize,
        /// Rows of the output.
        rows: usize,
        /// Columns of the output.
        cols: usize,
    },
    /// The two block sizes differ.
    #[error("x has quantization blocks of {x}, but the weight of {weight}: quantize both alike")]
    QuantBlocks {
        /// Block of x.
        x: usize,
        /// Block of the weight.
        weight: usize,
    },
    /// The weight has the wrong layout for the strategy.
    #[error("strategy {strategy} needs {needed}")]
    WeightForm {
        /// The strategy.
        strategy: Strategy,
        /// The layout to pass.
        needed: &'static str,
    },
    /// The shape is empty or too large.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// The choice of ISA, threads and blocks is not one for this problem and machine.
    #[error("this machine cannot multiply with {0}: use one of its ISAs, and no more than its threads")]
    Choice(CpuChoice),
    /// The operating system cannot start the threads.
    #[error("{0}")]
    Threads(String),
    /// The activations cannot be quantized, or a product of scales overflows.
    #[error(transparent)]
    Quantize(#[from] QuantizeError),
}

impl From<CpuError> for MultiplyError {
    fn from(error: CpuError) -> Self {
        Self::Threads(error.to_string())
    }
}

impl Cpu {
    /// Computes `out = x * transpose(weight)`.
    ///
    /// Unquantized activations below the smallest normal f32 count as zero. Scales of one k-block whose
    /// product overflows f32 are an error.
    ///
    /// If x cannot be quantized or a product of scales overflows, rows of `out` may already have been
    /// written.
    pub fn multiply<'a, T: Output>(
        &self,
        strategy: Strategy,
        x: impl Into<Activation<'a>>,
        weight: impl Into<WeightRef<'a>>,
        out: MatMut<'_, T>,
        workspace: &mut Workspace,
    ) -> Result<(), MultiplyError> {
        let (x, weight) = (x.into(), weight.into());
        let problem = problem_of(&x, &weight, &out)?;
        let choice = self.choice_for(&problem, strategy);
        self.multiply_planned(strategy, choice, problem, x, weight, out, workspace)
    }

    /// The same with another choice of ISA, threads and cache blocks, to find the fastest.
    pub fn multiply_as<'a, T: Output>(
        &self,
        strategy: Strategy,
        choice: CpuChoice,
        x: impl Into<Activation<'a>>,
        weight: impl Into<WeightRef<'a>>,
        out: MatMut<'_, T>,
        workspace: &mut Workspace,
    ) -> Result<(), MultiplyError> {
        let (x, weight) = (x.into(), weight.into());
        let problem = problem_of(&x, &weight, &out)?;
        // A plan of an earlier call was checked then, and small multiplications would notice the check.
        let is_checked = workspace.plan().is_some_and(|plan| plan.is_for(&problem, strategy, choice));
        if !is_checked && !choice.fits(&problem, &super::available(), self.threads()) {
            return Err(MultiplyError::Choice(choice));
        }
        self.multiply_planned(strategy, choice, problem, x, weight, out, workspace)
    }

    /// `choice` fits the machine.
    #[allow(clippy::too_many_arguments, reason = "the arguments of a multiplication, and how it is done")]
    fn multiply_planned<T: Output>(
        &self,
        strategy: Strategy,
        choice: CpuChoice,
        problem: Problem,
        x: Activation<'_>,
        weight: WeightRef<'_>,
        out: MatMut<'_, T>,
        workspace: &mut Workspace,
    ) -> Result<(), MultiplyError> {
        check_form(strategy, &weight)?;
        let (plan, scratch) = workspace.prepare(
            |plan| plan.is_for(&problem, strategy, choice),
            || CpuPlan::with_choice(problem, strategy, choice),
        );
        let call = Call {
            plan,
            kernels: isa::kernels(plan.isa, plan.operand),
            weight,
            prefetches_into_l1: self.prefetches_into_l1(),
        };
        let out = Out::new(out);
        // Waking another thread takes longer than a small multiplication.
        self.with_team_for(plan, |team| multiply_strips(call, x, scratch, team, &out))?
    }
}

/// Quantizes activations that are not, strip by strip, and multiplies.
fn multiply_strips<T: Output>(
    call: Call<'_>,
    x: Activation<'_>,
    scratch: Scratch<'_>,
    team: Team<'_>,
    out: &Out<'_, T>,
) -> Result<(), MultiplyError> {
    let Call { plan, kernels, weight, .. } = call;
    let Scratch { memory, shared, claims } = scratch;
    let problem = &plan.problem;
    let largest_scale = weight.largest_scale()?;
    let are_small = |x_scales: &[f32]| (largest_magnitude(x_scales) * largest_scale).is_finite();
    let k_major = ScaleLayout::k_major((problem.m, problem.quant_block.count(problem.k)));
    let plain = |floats| {
        let values = Values::Plain(floats);
        X { first_row: 0, values, scales: &[], scale_layout: k_major, rows_per_scale: 1 }
    };
    let mut workers = Workers { call, team, memory, claims, out };
    match x {
        Activation::Fp8(x) => {
            if !(x.largest_scale() * largest_scale).is_finite() {
                // The two largest may belong to different k-blocks.
                weight.check_products(&x.k_major_scales())?;
            }
            let (scales, scale_layout) = x.scales();
            let x = X {
                first_row: 0,
                values: Values::Codes(x.codes()),
                scales,
                scale_layout,
                rows_per_scale: x.granularity().rows(problem.quant_block),
            };
            workers.run(0..problem.m, || Some(x));
        }
        Activation::Plain(floats) => workers.run(0..problem.m, || Some(plain(floats))),
        Activation::Quantize(floats, granularity) => {
            let rows_per_scale = granularity.rows(problem.quant_block);
            let mut carver = Carver::new(&plan.shared, shared);
            let (codes, scales) = (carver.bytes(BufferId::XQ), carver.floats(BufferId::XScale));
            for rows in plan.strips() {
                let strip = Quantize {
                    kernels,
                    floats,
                    rows: rows.clone(),
                    rows_per_scale,
                    quant_block: problem.quant_block.size(),
                };
                let quantization = Quantization::new(strip, codes, scales);
                let quantized = || {
                    let (codes, scales) = quantization.complete()?;
                    let (first_row, values) = (rows.start, Values::Codes(codes));
                    Some(X { first_row, values, scales, scale_layout: k_major, rows_per_scale })
                };
                workers.run(rows.clone(), || quantized().filter(|x| are_small(x.scales)));
                let x = quantized().ok_or_else(|| quantization.error())?;
                if !are_small(x.scales) {
                    weight.check_products(x.scales)?;
                    workers.run(rows.clone(), || Some(x));
                }
            }
        }
    }
    Ok(())
}

/// The threads of a call, and what they share.
struct Workers<'a, 'b, T> {
    call: Call<'a>,
    team: Team<'a>,
    memory: &'a mut [Line],
    claims: &'a [Claims],
    out: &'a Out<'b, T>,
}

impl<T: Output> Workers<'_, '_, T> {
    /// Multiplies `rows` on all threads, of which each waits for `x`, or does nothing if there is none.
    fn run<'x>(&mut self, rows: Range<usize>, x: impl Fn() -> Option<X<'x>> + Sync + Send) {
        let Self { call, team, claims, out, .. } = *self;
        claims.iter().for_each(Claims::clear);
        let memory = Chunks::new(self.memory, thread_lines(call.plan));
        team.for_each(call.plan.workers(), |worker| {
            let Some(x) = x() else { return };
            let work = SharedWork { call, x };
            // SAFETY: each worker is run once.
            let memory = unsafe { memory.get(worker) };
            let claimer = Claimer::new(call.plan, rows.clone(), claims, worker);
            run_worker(&work, claimer, memory, out);
        });
    }
}

/// Computes what one thread claims, with the strategy's fetch.
fn run_worker<T: Output>(
    work: &SharedWork<'_>,
    mut claimer: Claimer<'_>,
    memory: &mut [Line],
    out: &Out<'_, T>,
) {
    let mut carver = Carver::new(&work.call.plan.memory, memory);
    let (x, sums) = (carver.bytes(BufferId::X), carver.floats(BufferId::Out));
    let (buffer, codes) = (carver.bytes(BufferId::W), carver.bytes(BufferId::WQ));
    let table = ScaleTable { scales: carver.floats(BufferId::Scales) };
    let steps = work.call.plan.steps(|| claimer.claim());
    match (work.call.plan.strategy, work.call.weight) {
        (Strategy::Auto, WeightRef::Rows(weight)) => {
            let fetch = Auto { work, weight, codes, buffer, scales: TileScales::default() };
            nest::run(work, fetch, steps, x, sums, out);
        }
        (Strategy::Dma, WeightRef::Rows(weight)) => {
            let fetch = Dma::new(work, weight, codes, buffer);
            nest::run(work, fetch, steps, x, sums, out);
        }
        (Strategy::Smem, WeightRef::Rows(weight)) => {
            let dma = Dma::new(work, weight, codes, buffer);
            nest::run(work, Smem { dma, table }, steps, x, sums, out);
        }
        (Strategy::Strip, WeightRef::Packed(weight)) => {
            let fetch = Strip::new(work, weight, buffer, table);
            nest::run(work, fetch, steps, x, sums, out);
        }
        _ => unreachable!("the form of the weight was checked"),
    }
}

fn problem_of<T: Output>(
    x: &Activation<'_>,
    weight: &WeightRef<'_>,
    out: &MatMut<'_, T>,
) -> Result<Problem, MultiplyError> {
    let (m, n, k) = (x.rows(), weight.rows(), weight.cols());
    if x.cols() != k {
        return Err(MultiplyError::Depth { x: x.cols(), weight: k });
    }
    if (out.rows(), out.cols()) != (m, n) {
        let (rows, cols) = (out.rows(), out.cols());
        return Err(MultiplyError::OutputShape { m, n, rows, cols });
    }
    let quant_block = weight.quant_block();
    if let Activation::Fp8(x) = x
        && x.quant_block() != quant_block
    {
        return Err(MultiplyError::QuantBlocks { x: x.quant_block().size(), weight: quant_block.size() });
    }
    Ok(Problem::new(m, n, k, quant_block)?.with_x(x.kind()).with_out(T::KIND))
}

fn check_form(strategy: Strategy, weight: &WeightRef<'_>) -> Result<(), MultiplyError> {
    let needed = match (strategy, weight) {
        (Strategy::Strip, WeightRef::Rows(_)) => "a packed weight: pass a PackedWeight",
        (Strategy::Auto | Strategy::Dma | Strategy::Smem, WeightRef::Packed(_)) => {
            "a row-major weight: pass the QuantizedWeight"
        }
        _ => return Ok(()),
    };
    Err(MultiplyError::WeightForm { strategy, needed })
}
