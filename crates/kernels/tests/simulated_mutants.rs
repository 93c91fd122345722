//! Mutated kernels: the simulator must detect every mutation, by a finding or by a wrong result.

mod support;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use octile_core::{
    ActivationKind, Problem, QuantBlock, ScaleGranularity, Strategy,
    device::tpu::TpuChip,
    exact::ExactOperands,
    plan::tpu::{BlockMode, Dims, TpuPlan},
};
use octile_kernels::tpu::emit;
use octile_mosaic::interpret::{Options, Trouble, simulate};
use octile_mosaic::parse;
use support::{plan, rates, tensors};

/// A kernel with one mutation.
struct Mutant {
    what: String,
    lines: Vec<String>,
}

/// A kernel's text, and the module around it.
struct Original {
    lines: Vec<String>,
    module: String,
    body: String,
    exact: ExactOperands,
}

impl Original {
    fn new(strategy: Strategy) -> Self {
        // Three k-blocks: with an even number, a wrong slot could be right by chance.
        let problem = Problem::new(256, 256, 384, QuantBlock::B128).expect("the shape is valid");
        Self::of(&plan(&problem, strategy, BlockMode::Aligned).expect("the chip takes it"))
    }

    fn of(plan: &TpuPlan) -> Self {
        let emitted = emit(plan);
        // Exact operands: a result is correct to the bit, or wrong.
        let exact = ExactOperands::new(plan.problem, 0, 3);
        let text = emitted.mosaic.to_string();
        Self {
            lines: text.lines().map(str::to_owned).collect(),
            module: emitted.stablehlo.to_string(),
            body: STANDARD.encode(text),
            exact,
        }
    }

    /// Lines that `accept` accepts, with their numbers.
    fn lines<'a>(&'a self, accept: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = (usize, &'a str)> {
        self.lines.iter().map(String::as_str).enumerate().filter(move |(_, line)| accept(line))
    }

    /// The kernel with `replacement` in place of line `number`.
    fn replaced(&self, number: usize, replacement: &[String], what: &str) -> Mutant {
        let mut lines = self.lines.clone();
        lines.splice(number..=number, replacement.iter().cloned());
        Mutant { what: format!("{what} in line {}: {}", number + 1, self.lines[number].trim()), lines }
    }

    /// The kernel with one index of line `number` changed.
    fn reindexed(
        &self,
        number: usize,
        index: usize,
        compute: impl Fn(&str) -> Vec<String>,
        what: &str,
    ) -> Mutant {
        let line = &self.lines[number];
        let (before, rest) = line.split_once('[').expect("an access has indices");
        let (list, after) = rest.split_once(']').expect("brackets close");
        let mut indices: Vec<&str> = list.split(", ").collect();
        let mut replacement = compute(indices[index]);
        indices[index] = "%mutated";
        replacement.push(format!("{before}[{}]{after}", indices.join(", ")));
        self.replaced(number, &replacement, what)
    }

    /// What the simulator detects in a mutant, if anything.
    fn trouble(&self, mutant: &Mutant) -> Option<String> {
        let body = STANDARD.encode(mutant.lines.join("\n"));
        let module = parse(&self.module.replace(&self.body, &body)).expect("the module is still one");
        let outcome = simulate(&module, &tensors(&self.exact.operands), &Options::new(rates()));
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => return Some(error.to_string()),
        };
        if let Some(finding) = outcome.findings.first() {
            return Some(format!("{:?}", finding.trouble));
        }
        let comparison = self.exact.compare(&outcome.outputs[0].to_f32());
        (comparison.wrong > 0).then(|| format!("{comparison:?}"))
    }

    /// Requires that all `mutants` are detected, and that there are at least `least`.
    fn assert_caught(&self, mutants: Vec<Mutant>, least: usize) {
        assert!(mutants.len() >= least, "only {} mutants", mutants.len());
        for mutant in &mutants {
            assert!(self.trouble(mutant).is_some(), "not caught: {}", mutant.what);
        }
    }

    /// Whether the slice in this line belongs to a wait: then only its size matters.
    fn belongs_to_wait(&self, number: usize) -> bool {
        let copies = |line: &&String| line.contains("tpu.enqueue_dma") || line.contains("tpu.wait_dma2");
        self.lines[number..].iter().find(copies).is_some_and(|line| line.contains("tpu.wait_dma2"))
    }
}

fn is_semaphore(line: &str) -> bool {
    line.contains("memref_slice %semaphores[")
}

const MANUAL: [Strategy; 2] = [Strategy::Dma, Strategy::Smem];

#[test]
fn the_originals_are_fine() {
    for strategy in Strategy::ALL {
        let original = Original::new(strategy);
        let mutant = Mutant { what: String::new(), lines: original.lines.clone() };
        assert_eq!(original.trouble(&mutant), None, "{strategy}");
    }
}

#[test]
fn a_dropped_wait() {
    for strategy in MANUAL {
        let original = Original::new(strategy);
        let waits = original.lines(|line| line.contains("tpu.wait_dma2"));
        let mutants: Vec<Mutant> =
            waits.map(|(number, _)| original.replaced(number, &[], "no wait")).collect();
        for mutant in &mutants {
            let trouble = original.trouble(mutant).unwrap_or_default();
            assert!(
                trouble.contains("During") || trouble.contains("SemaphoreLeftOver"),
                "{}: {trouble}",
                mutant.what
            );
        }
        original.assert_caught(mutants, 7);
    }
}

/// Strips in several steps whose work overlaps: blocks of rows, and blocks of columns.
#[test]
fn a_dropped_wait_of_a_strip() {
    let token = ActivationKind::Fp8(ScaleGranularity::Token);
    let chip = TpuChip::named("tpu7x").expect("the chip is known");
    for ((m, n, k, quant_block), tile) in [
        ((1034, 140, 128, QuantBlock::B128), (256, 256, 128)),
        ((778, 600, 128, QuantBlock::B128), (512, 768, 128)),
        ((1034, 600, 128, QuantBlock::B128), (256, 768, 128)),
        ((778, 600, 256, QuantBlock::B256), (512, 768, 256)),
        ((300, 700, 128, QuantBlock::B128), (320, 256, 128)),
        ((100, 700, 256, QuantBlock::B128), (128, 256, 256)),
        ((16, 700, 256, QuantBlock::B128), (16, 256, 256)),
    ] {
        let problem = Problem::new(m, n, k, quant_block).expect("the shape is valid").with_x(token);
        let tile = Dims { m: tile.0, n: tile.1, k: tile.2 };
        let plan = TpuPlan::with_tile(&problem, chip, Strategy::Strip, BlockMode::Auto, tile);
        let original = Original::of(&plan.expect("the chip takes it"));
        let waits = original.lines(|line| line.contains("tpu.wait_dma2"));
        let mutants = waits.map(|(number, _)| original.replaced(number, &[], "no wait"));
        original.assert_caught(mutants.collect(), 7);
    }
}

/// Kernels that assign matmuls to MXUs: several steps, with few results in VMEM, and rows in several chunks.
#[test]
fn a_dropped_wait_or_matmul_of_assigned_ones() {
    let token = ActivationKind::Fp8(ScaleGranularity::Token);
    let chip = TpuChip::named("tpu7x").expect("the chip is known");
    for ((m, n, k), tile, keeps_results) in
        [((144, 11_000, 512), (160, 1024, 512), false), ((530, 2100, 640), (544, 512, 640), true)]
    {
        let problem = Problem::new(m, n, k, QuantBlock::B128).expect("the shape is valid").with_x(token);
        let tile = Dims { m: tile.0, n: tile.1, k: tile.2 };
        let plan = TpuPlan::with_tile(&problem, chip, Strategy::Strip, BlockMode::Auto, tile);
        let plan = plan.expect("the chip takes it");
        let pipeline = plan.mxu_pipeline.expect("it assigns matmuls");
        assert_eq!(pipeline.results >= (plan.grid.n - 1) * plan.tile.n / 512, keeps_results);
        let original = Original::of(&plan);
        let none = Mutant { what: String::new(), lines: original.lines.clone() };
        assert_eq!(original.trouble(&none), None);
        let waits = original.lines(|line| line.contains("tpu.wait_dma2"));
        let mutants = waits.map(|(number, _)| original.replaced(number, &[], "no wait"));
        original.assert_caught(mutants.collect(), 7);
        let pushes = original.lines(|line| line.contains("matmul_push_rhs")).step_by(5);
        let sums = original.lines(|line| line.contains("matmul_acc_lhs")).step_by(7);
        let mutants = pushes.chain(sums).map(|(number, _)| original.replaced(number, &[], "no matmul"));
        original.assert_caught(mutants.collect(), 7);
    }
}

#[test]
fn a_swapped_slot() {
    let flip = |ty: &'static str| {
        move |index: &str| {
            vec![
                format!("%one_more = arith.constant 1 : {ty}"),
                format!("%mutated = arith.subi %one_more, {index} : {ty}"),
            ]
        }
    };
    for strategy in MANUAL {
        let original = Original::new(strategy);
        let sliced = original
            .lines(|line| line.contains("tpu.memref_slice") && (line.contains("_x2[") || is_semaphore(line)))
            .filter(|(number, line)| is_semaphore(line) || !original.belongs_to_wait(*number))
            .map(|(number, _)| original.reindexed(number, 0, flip("i32"), "other slot"));
        let accessed = original
            .lines(|line| line.contains("_x2[") && !line.contains("tpu.memref_slice"))
            .map(|(number, _)| original.reindexed(number, 0, flip("index"), "other slot"));
        original.assert_caught(sliced.chain(accessed).collect(), 30);
    }
}

#[test]
fn a_wrong_semaphore() {
    let next = |index: &str| {
        vec![
            "%one_more = arith.constant 1 : i32".to_owned(),
            "%five = arith.constant 5 : i32".to_owned(),
            format!("%next = arith.addi {index}, %one_more : i32"),
            "%mutated = arith.remsi %next, %five : i32".to_owned(),
        ]
    };
    for strategy in MANUAL {
        let original = Original::new(strategy);
        let slices = original.lines(is_semaphore);
        original.assert_caught(
            slices.map(|(n, _)| original.reindexed(n, 1, next, "wrong semaphore")).collect(),
            15,
        );
    }
}

#[test]
fn a_condition_that_is_off() {
    let changes = [
        ("arith.cmpi slt", "arith.cmpi sle"),
        ("arith.cmpi eq", "arith.cmpi ne"),
        ("arith.cmpi sge", "arith.cmpi sgt"),
    ];
    for strategy in [Strategy::Auto, Strategy::Dma, Strategy::Smem] {
        let original = Original::new(strategy);
        let mutants = changes.into_iter().flat_map(|(from, to)| {
            original
                .lines(move |line| line.contains(from))
                .map(|(number, line)| original.replaced(number, &[line.replace(from, to)], "condition off"))
                .collect::<Vec<_>>()
        });
        original.assert_caught(mutants.collect(), 2);
    }
}

/// A kernel that applies only the scales of the last k-block.
#[test]
fn the_scales_of_the_last_block() {
    let constant = |ty: &'static str| move |_: &str| vec![format!("%mutated = arith.constant 2 : {ty}")];
    for strategy in MANUAL {
        let original = Original::new(strategy);
        let copied = original
            .lines(|line| line.contains("memref_slice %w_scale[") || line.contains("memref_slice %x_scale["))
            .filter(|(number, _)| !original.belongs_to_wait(*number))
            .map(|(number, _)| original.reindexed(number, 1, constant("i32"), "last scales"));
        original.assert_caught(copied.collect(), 4);
    }
    let original = Original::new(Strategy::Auto);
    let returned = original
        .lines(|line| {
            line.trim_start().starts_with("return ")
                && line.contains(": i32, i32, i32, i32")
                && line.contains("%k")
        })
        .map(|(number, line)| {
            let constant = "%mutated = arith.constant 2 : i32".to_owned();
            original.replaced(number, &[constant, line.replace("%k", "%mutated")], "last scales")
        });
    original.assert_caught(returned.collect(), 2);
}

#[test]
fn a_missing_wait_is_named_as_such() {
    let original = Original::new(Strategy::Dma);
    let (number, _) = original.lines(|line| line.contains("tpu.wait_dma2")).next().expect("the kernel waits");
    let mutant = original.replaced(number, &[], "no wait");
    let body = STANDARD.encode(mutant.lines.join("\n"));
    let module = parse(&original.module.replace(&original.body, &body)).expect("the module is still one");
    let outcome =
        simulate(&module, &tensors(&original.exact.operands), &Options::new(rates())).expect("it runs");
    match &outcome.findings[0].trouble {
        Trouble::ReadDuringCopyIn { area, copy, read, .. } => {
            assert_eq!(area.buffer, "x_x2");
            let line = |site: Option<u32>| mutant.lines[site.expect("a place") as usize - 1].clone();
            assert!(line(copy.line).contains("tpu.enqueue_dma"));
            assert!(line(read.line).contains("vector.load %x_x2"));
        }
        other => panic!("{other:?}"),
    }
}
