//! A planned multiplication on the simulated machine: what a runtime does with device memory, done with [`Global`].

use half::{bf16, f16};
use octile_core::{
    Problem,
    bound::Accumulator,
    device::hopper::HopperGpu,
    plan::hopper::{
        Arguments, HopperPlan, NUMBERS, QUANTIZE_NUMBERS, QUANTIZE_SHARED_BYTES, QuantizeLaunch,
        RESULT_COLUMNS, STAGE_K, quantize_numbers,
    },
    sample::{Activations, Operands},
};

use crate::{Fault, Global, Launch, Outcome, Parameter, ParseError, Program, TensorMap};

/// The kernels of a plan, read.
#[derive(Debug)]
pub struct Product {
    plan: HopperPlan,
    multiply: Program,
    quantize: Option<(Program, QuantizeLaunch)>,
    /// Instructions after which a kernel is stopped.
    most_instructions: u64,
}

/// The machine that runs them.
#[derive(Debug, Clone, Copy)]
pub struct Machine<'a> {
    /// What plans were made for.
    pub gpu: &'a HopperGpu,
    /// Blocks that run side by side; at least a whole cluster does.
    pub resident_blocks: usize,
    /// Decides who goes first.
    pub seed: u64,
}

/// Tensor maps and pointers that kernels are called with, ahead of the numbers.
const MAPS: usize = 3;
const POINTERS: usize = 5;
const QUANTIZE_POINTERS: usize = 3;

/// What every byte of the result is before, and of the gaps between rows of operands: NaN in all formats.
const POISON: u8 = 0xff;

impl Product {
    /// How the simulated tensor cores add products up: more exactly than real ones, which keep about 13 bits.
    pub const ACCUMULATOR: Accumulator = Accumulator::F32;

    /// Reads the kernels of a plan: the one that multiplies, and the one that quantizes where x comes in floats.
    pub fn new(
        plan: &HopperPlan,
        multiply: &str,
        quantize: Option<(&str, QuantizeLaunch)>,
    ) -> Result<Self, ParseError> {
        let quantize = quantize.map(|(ptx, launch)| {
            let parameters = QUANTIZE_POINTERS + QUANTIZE_NUMBERS.len();
            Ok((read(ptx, launch.threads as usize, parameters)?, launch))
        });
        let multiply = read(multiply, plan.threads(), MAPS + POINTERS + NUMBERS.len())?;
        let most_instructions = most_instructions(&plan.problem);
        Ok(Self { plan: plan.clone(), multiply, quantize: quantize.transpose()?, most_instructions })
    }

    /// Stops each kernel after so many instructions, in place of the default for its problem.
    pub fn with_most_instructions(self, most_instructions: u64) -> Self {
        Self { most_instructions, ..self }
    }

    /// The name of the kernel that multiplies.
    pub fn entry(&self) -> &str {
        &self.multiply.entry
    }

    /// Multiplies; gives the bytes of the result, and what it took.
    ///
    /// # Panics
    /// When the operands or the layout are not those of a problem that the plan was made for.
    pub fn run(
        &self,
        operands: &Operands,
        arguments: Arguments,
        machine: Machine<'_>,
    ) -> Result<(Vec<u8>, Outcome), Fault> {
        let problem = operands.problem;
        assert_eq!(problem, self.plan.problem, "the operands are those of the plan");
        let mut global = Global::default();
        let (codes, scales) = self.activations(operands, arguments, machine, &mut global)?;
        let weight = &operands.weight;
        let codes_of_w = with_gaps(weight.codes(), problem.k, arguments.w_stride);
        let w = if arguments.constant_weight {
            global.allocate_settled(codes_of_w)
        } else {
            global.allocate(codes_of_w)
        };
        let (_, k_blocks) = problem.w_scale_shape();
        let w_scales = global.allocate(floats(&arguments.w_scales.arrange(weight.scales(), k_blocks)));
        let out_elements = (problem.m - 1) * arguments.out_stride + problem.n;
        let out = global.allocate(vec![POISON; out_elements * problem.out.bytes()]);

        let (a_box, b_box) = self.plan.fetched_rows();
        let map = |of_x: bool, box_rows: usize| {
            let (address, rows, stride) = if of_x {
                (codes, problem.m, arguments.x_stride)
            } else {
                (w, problem.n, arguments.w_stride)
            };
            TensorMap { address, element: 1, size: (problem.k, rows), stride, boxes: (STAGE_K, box_rows) }
        };
        let result_map = TensorMap {
            address: out,
            element: 2,
            size: (problem.n, problem.m),
            stride: 2 * arguments.out_stride,
            boxes: (RESULT_COLUMNS, self.plan.stored_rows()),
        };
        let swapped = self.plan.shape.swapped;
        let maps: [_; MAPS] = [map(!swapped, a_box), map(swapped, b_box), result_map].map(Parameter::Map);
        let pointers: [_; POINTERS] = [scales, w_scales, out, codes, w].map(Parameter::Pointer);
        let numbers =
            arguments.numbers(&self.plan).expect("a simulated problem is small").map(Parameter::Number);
        let cluster = self.plan.shape.cluster.ctas();
        let launch = Launch {
            program: &self.multiply,
            grid: (self.plan.blocks, 1),
            threads: self.plan.threads(),
            shared_bytes: self.plan.shared_bytes(),
            cluster,
            resident_clusters: machine.resident_blocks / cluster,
            parameters: maps.into_iter().chain(pointers).chain(numbers).collect(),
            seed: machine.seed,
            most_instructions: self.most_instructions,
        };
        let outcome = launch.run(&mut global)?;
        Ok((global.read(out).expect("it was allocated").to_vec(), outcome))
    }

    /// Codes and scales of x in memory, quantized there where x comes in floats.
    fn activations(
        &self,
        operands: &Operands,
        arguments: Arguments,
        machine: Machine<'_>,
        global: &mut Global,
    ) -> Result<(u64, u64), Fault> {
        let problem = &operands.problem;
        let (rows, k_blocks) = problem.x_scale_shape().expect("plans are made for 8-bit activations");
        let values = match &operands.x {
            Activations::Fp8(x) => {
                let codes = global.allocate(with_gaps(x.codes(), problem.k, arguments.x_stride));
                let scales = floats(&arguments.x_scales.arrange(x.scales(), k_blocks));
                return Ok((codes, global.allocate(scales)));
            }
            Activations::F32(x) => floats(x),
            Activations::Bf16(x) => x.iter().copied().flat_map(bf16::to_le_bytes).collect(),
            Activations::F16(x) => x.iter().copied().flat_map(f16::to_le_bytes).collect(),
        };
        let (program, quantize) =
            self.quantize.as_ref().expect("a plan for floats comes with a kernel for them");
        let x = global.allocate(values);
        let codes = global.allocate(vec![POISON; problem.m * arguments.x_stride]);
        let scales = global.allocate(vec![POISON; 4 * arguments.x_scales.extent((rows, k_blocks))]);
        let numbers = quantize_numbers(problem, problem.k, arguments.x_stride, arguments.x_scales);
        let numbers = numbers.expect("a simulated problem is small").map(Parameter::Number);
        let grid = quantize.grid(problem, machine.gpu.sms).expect("a simulated problem is small");
        let launch = Launch {
            program,
            grid: (grid.0 as usize, grid.1 as usize),
            threads: quantize.threads as usize,
            shared_bytes: QUANTIZE_SHARED_BYTES as usize,
            cluster: 1,
            resident_clusters: machine.resident_blocks,
            parameters: [x, codes, scales].map(Parameter::Pointer).into_iter().chain(numbers).collect(),
            seed: machine.seed,
            most_instructions: self.most_instructions,
        };
        launch.run(global)?;
        Ok((codes, scales))
    }
}

/// Instructions after which a kernel is taken to be in an endless loop: 2^20, and 2^15 for every 128^3 of the problem, of
/// which kernels take up to 2^12 there.
fn most_instructions(problem: &Problem) -> u64 {
    const ANY: u64 = 1 << 20;
    const PER_STAGE: u64 = 1 << 15;
    let stages = [problem.m, problem.n, problem.k].map(|size| size.div_ceil(STAGE_K) as u64);
    stages.into_iter().fold(PER_STAGE, u64::saturating_mul).saturating_add(ANY)
}

/// Reads a kernel that is launched with so many threads and parameters.
fn read(ptx: &str, threads: usize, parameters: usize) -> Result<Program, ParseError> {
    let program = Program::parse(ptx)?;
    let taken = program.parameters.len();
    let problem = if taken != parameters {
        format!("the kernel takes {taken} parameters and is called with {parameters}")
    } else if program.most_threads < threads {
        format!("the kernel takes {} threads at most and is launched with {threads}", program.most_threads)
    } else {
        return Ok(program);
    };
    Err(ParseError { line: 1, problem })
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Rows of `columns` codes, `stride` bytes apart.
fn with_gaps(codes: &[u8], columns: usize, stride: usize) -> Vec<u8> {
    let mut bytes = vec![POISON; codes.len() / columns * stride];
    for (to, from) in bytes.chunks_mut(stride).zip(codes.chunks(columns)) {
        to[..columns].copy_from_slice(from);
    }
    bytes
}
