//! Runs a problem on the CPU backend and compares it with the f64 reference.

#![allow(dead_code, reason = "every test file uses its own part")]

use std::{
    fs,
    io::Write,
    path::PathBuf,
    sync::Once,
    thread,
    time::{Duration, Instant},
};

use half::{bf16, f16};
use octile_core::{
    bound::Accumulator,
    oracle::{self, Reference, Widen},
    sample::{Activations, Operands},
};
use octile_runtime::cpu::{
    Activation, ActivationKind, Cpu, FloatKind, Floats, Isa, Mat, MatMut, Output, PackedWeight, Problem,
    QuantizedWeight, ScaleGranularity, Strategy, WeightRef, Workspace, available,
};

/// Every kind of activations.
pub(crate) const X_KINDS: [ActivationKind; 11] = {
    use ActivationKind::{Fp8, Plain, Quantized};
    use FloatKind::{Bf16, F16, F32};
    use ScaleGranularity::{Block, Token};
    [
        Fp8(Block),
        Fp8(Token),
        Quantized(F32, Block),
        Quantized(F32, Token),
        Quantized(Bf16, Block),
        Quantized(Bf16, Token),
        Quantized(F16, Block),
        Quantized(F16, Token),
        Plain(F32),
        Plain(Bf16),
        Plain(F16),
    ]
};

/// A backend for every ISA of this CPU. Reports once which ISAs are not tested, and what they need.
pub(crate) fn cpus(threads: usize) -> Vec<Cpu> {
    isas().into_iter().map(|isa| cpu(isa, threads)).collect()
}

/// Every ISA of this CPU, with the same report.
pub(crate) fn isas() -> Vec<Isa> {
    static REPORT: Once = Once::new();
    let available = available();
    REPORT.call_once(|| {
        let program = std::env::current_exe().unwrap_or_default();
        let tests = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let tests = tests.rsplit_once('-').map_or(&*tests, |(name, _)| name);
        for isa in Isa::ALL.into_iter().filter(|isa| !available.contains(isa)) {
            // Written directly, because the test runner captures what passing tests print, and in one piece.
            let line = format!("NOT RUN: {tests} with {isa} needs {}\n", isa.requirement());
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    });
    available
}

pub(crate) fn cpu(isa: Isa, threads: usize) -> Cpu {
    Cpu::builder().isa(isa).threads(threads).spread_small_work().build().unwrap()
}

/// Folders of this process's threads that have the name which the pool gives them.
pub(crate) fn pool_threads() -> Vec<PathBuf> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().filter_map(|task| Some(task.ok()?.path()));
    let is_ours = |name: String| name.starts_with("octile-");
    tasks.filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(is_ours)).collect()
}

/// The same once there are `count`. A thread takes its name when it first runs, which may be after others
/// have done all the work.
pub(crate) fn started_pool_threads(count: usize) -> Vec<PathBuf> {
    wait_until(|| pool_threads().len() >= count);
    pool_threads()
}

/// Returns when the condition holds, or after some seconds.
pub(crate) fn wait_until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Element types of results that can be NaN-poisoned and compared bit by bit.
pub(crate) trait Element: Output + Widen {
    const NAN: Self;
    fn bits(self) -> u32;
}

impl Element for f32 {
    const NAN: Self = f32::NAN;
    fn bits(self) -> u32 {
        self.to_bits()
    }
}

impl Element for bf16 {
    const NAN: Self = bf16::NAN;
    fn bits(self) -> u32 {
        self.to_bits().into()
    }
}

impl Element for f16 {
    const NAN: Self = f16::NAN;
    fn bits(self) -> u32 {
        self.to_bits().into()
    }
}

/// A problem with operands and the packed weight.
pub(crate) struct Case {
    pub operands: Operands,
    pub packed: PackedWeight,
}

impl Case {
    pub(crate) fn new(problem: Problem, seed: u64) -> Self {
        let operands = Operands::random(problem, seed);
        let packed = PackedWeight::new(&operands.weight);
        Self { operands, packed }
    }

    pub(crate) fn problem(&self) -> Problem {
        self.operands.problem
    }

    /// The same weight with the first rows of x, which are not quantized.
    pub(crate) fn first_rows(&self, rows: usize) -> Self {
        let Operands { problem, weight, x } = &self.operands;
        let problem =
            Problem::new(rows, problem.n, problem.k, problem.quant_block).unwrap().with_x(problem.x);
        let x = match x {
            Activations::Fp8(_) => panic!("quantized activations have scales"),
            Activations::F32(x) => Activations::F32(x[..rows * problem.k].to_vec()),
            Activations::Bf16(x) => Activations::Bf16(x[..rows * problem.k].to_vec()),
            Activations::F16(x) => Activations::F16(x[..rows * problem.k].to_vec()),
        };
        let operands = Operands { problem, weight: weight.clone(), x };
        Self { packed: PackedWeight::new(weight), operands }
    }

    /// Gives every weight block a different scale.
    pub(crate) fn scale_blocks(&mut self, scale: impl Fn(usize) -> f32) {
        let weight = &self.operands.weight;
        let scales: Vec<f32> = (0..weight.scales().len()).map(scale).collect();
        let codes = Mat::new(weight.codes(), weight.rows(), weight.cols()).unwrap();
        self.operands.weight = QuantizedWeight::from_parts(codes, &scales, weight.quant_block()).unwrap();
        self.packed = PackedWeight::new(&self.operands.weight);
    }

    pub(crate) fn reference(&self) -> Reference {
        let Operands { problem, weight, .. } = &self.operands;
        let input = self.operands.oracle_input();
        oracle::multiply(&input, problem.m, weight, Accumulator::F32, problem.out)
    }

    pub(crate) fn weight(&self, strategy: Strategy) -> WeightRef<'_> {
        match strategy {
            Strategy::Strip => (&self.packed).into(),
            Strategy::Auto | Strategy::Dma | Strategy::Smem => (&self.operands.weight).into(),
        }
    }

    pub(crate) fn x(&self) -> Activation<'_> {
        let Problem { m, k, x, .. } = self.problem();
        let floats: Floats<'_> = match &self.operands.x {
            Activations::Fp8(x) => return x.into(),
            Activations::F32(x) => Mat::new(x, m, k).unwrap().into(),
            Activations::Bf16(x) => Mat::new(x, m, k).unwrap().into(),
            Activations::F16(x) => Mat::new(x, m, k).unwrap().into(),
        };
        match x {
            ActivationKind::Quantized(_, granularity) => Activation::Quantize(floats, granularity),
            ActivationKind::Plain(_) | ActivationKind::Fp8(_) => Activation::Plain(floats),
        }
    }

    /// Multiplies into a poisoned output with gaps between the rows, checks that the gaps stay poisoned, and
    /// returns the rows.
    pub(crate) fn multiply<T: Element>(
        &self,
        cpu: &Cpu,
        strategy: Strategy,
        workspace: &mut Workspace,
    ) -> Vec<T> {
        const GAP: usize = 3;
        let Problem { m, n, .. } = self.problem();
        let stride = n + GAP;
        // Guard bands before and after, too.
        let mut guarded = vec![T::NAN; stride + m * stride];
        let out = MatMut::with_stride(&mut guarded[GAP..], m, n, stride).unwrap();
        cpu.multiply(strategy, self.x(), self.weight(strategy), out, workspace).unwrap();
        let mut result = Vec::with_capacity(m * n);
        for (at, value) in guarded.into_iter().enumerate() {
            let inside = at >= GAP && (at - GAP) / stride < m && (at - GAP) % stride < n;
            if inside {
                result.push(value);
            } else {
                assert_eq!(value.bits(), T::NAN.bits(), "{} wrote outside at {at}", self.problem());
            }
        }
        result
    }

    /// Multiplies and compares with `reference`.
    pub(crate) fn check<T: Element>(&self, cpu: &Cpu, strategy: Strategy, reference: &Reference) {
        let result = self.multiply::<T>(cpu, strategy, &mut Workspace::new());
        let comparison = reference.compare(&result);
        let problem = self.problem();
        assert!(
            comparison.passed(),
            "{problem} x {} out {} {strategy} {}: {comparison:?}",
            problem.x,
            problem.out,
            cpu.dispatch(),
        );
    }
}
