//! A planned matmul on the simulator: what the CUDA runtime does, with simulated [`DeviceMemory`].

use half::{bf16, f16};
use octile_core::{
    Problem,
    bound::Accumulator,
    device::hopper::HopperGpu,
    plan::hopper::{
        Arguments, HopperPlan, NUMBERS, QUANTIZE_NUMBERS, QuantizeLaunch, RESULT_COLUMNS, STAGE_K,
        quantize_numbers,
    },
    sample::{Activations, Operands},
};

use super::{Coverage, DeviceMemory, Fault, KernelArgument, Launch, LoadError, Program, TensorMap};
use crate::limits::{EXECUTED_BASE, EXECUTED_PER_STAGE};

/// The kernels of a plan, loaded for simulation.
#[derive(Debug)]
pub struct SimulatedMatmul {
    plan: HopperPlan,
    multiply: Program,
    quantize: Option<(Program, QuantizeLaunch)>,
    max_instructions: u64,
}

/// A simulated GPU.
#[derive(Debug, Clone, Copy)]
pub struct Simulator<'a> {
    /// The GPU that plans were made for.
    pub gpu: &'a HopperGpu,
    /// CTAs that run at a time; at least one cluster does.
    pub resident_ctas: usize,
    /// Decides the order of warps and asynchronous operations.
    pub seed: u64,
}

/// Tensor maps and pointers ahead of the numbers in a kernel's parameters.
const MAPS: usize = 3;
const POINTERS: usize = 5;
const QUANTIZE_POINTERS: usize = 3;

/// Initial bytes of the result and of the gaps between rows: NaN in every format.
const POISON: u8 = 0xff;

impl SimulatedMatmul {
    /// Accumulator model of the simulated tensor cores; real ones keep about 13 bits within a wgmma chain.
    pub const ACCUMULATOR: Accumulator = Accumulator::F32;

    /// Loads the kernels of a plan: the matmul, and the quantization kernel where x comes in floats.
    pub fn new(
        plan: &HopperPlan,
        multiply: &str,
        quantize: Option<(&str, QuantizeLaunch)>,
    ) -> Result<Self, LoadError> {
        let quantize = quantize.map(|(ptx, launch)| {
            let parameters = QUANTIZE_POINTERS + QUANTIZE_NUMBERS.len();
            load(ptx, launch.threads as usize, parameters).map(|program| (program, launch))
        });
        let multiply = load(multiply, plan.threads(), MAPS + POINTERS + NUMBERS.len())?;
        let max_instructions = max_instructions(&plan.problem);
        Ok(Self { plan: plan.clone(), multiply, quantize: quantize.transpose()?, max_instructions })
    }

    /// Replaces the instruction limit of each kernel.
    pub fn with_max_instructions(self, max_instructions: u64) -> Self {
        Self { max_instructions, ..self }
    }

    /// Name of the matmul kernel.
    pub fn entry(&self) -> &str {
        &self.multiply.entry
    }

    /// Multiplies; returns the bytes of the result, and what the matmul kernel executed.
    ///
    /// # Panics
    /// When the operands or the layout are not those of the plan's problem.
    pub fn run(
        &self,
        operands: &Operands,
        arguments: Arguments,
        simulator: Simulator<'_>,
    ) -> Result<(Vec<u8>, Coverage), Fault> {
        let problem = operands.problem;
        assert_eq!(problem, self.plan.problem, "the operands are those of the plan");
        let mut device = DeviceMemory::default();
        let (codes, scales) = self.activations(operands, arguments, simulator, &mut device)?;
        let weight = &operands.weight;
        let w_codes = with_gaps(weight.codes(), problem.k, arguments.w_stride);
        let w = if arguments.constant_weight {
            device.allocate_constant(w_codes)
        } else {
            device.allocate(w_codes)
        };
        let (_, k_blocks) = problem.w_scale_shape();
        let w_scales = device.allocate(floats(&arguments.w_scales.arrange(weight.scales(), k_blocks)));
        let out_elements = (problem.m - 1) * arguments.out_stride + problem.n;
        let out = device.allocate(vec![POISON; out_elements * problem.out.bytes()]);
        let config = self.plan.launch_config().expect("a simulated problem is small");
        let pointers: [_; POINTERS] = [scales, w_scales, out, codes, w].map(KernelArgument::Pointer);
        let numbers = arguments.numbers(&self.plan).expect("a simulated problem is small");
        let maps = self.tensor_maps(arguments, [codes, w, out]).map(KernelArgument::TensorMap);
        let launch = Launch {
            program: &self.multiply,
            config,
            arguments: maps.into_iter().chain(pointers).chain(numbers.map(KernelArgument::Number)).collect(),
            resident_clusters: simulator.resident_ctas / config.cluster as usize,
            seed: simulator.seed,
            max_instructions: self.max_instructions,
        };
        let coverage = launch.run(&mut device)?;
        Ok((device.read(out).expect("it was allocated").to_vec(), coverage))
    }

    /// Tensor maps of A, B and the result, for x, the weight and the result at these addresses.
    fn tensor_maps(&self, arguments: Arguments, [x, w, out]: [u64; 3]) -> [TensorMap; MAPS] {
        let problem = &self.plan.problem;
        let operand = |is_x: bool, box_rows: usize| {
            let (address, rows, stride) =
                if is_x { (x, problem.m, arguments.x_stride) } else { (w, problem.n, arguments.w_stride) };
            TensorMap { address, element: 1, size: (problem.k, rows), stride, boxes: (STAGE_K, box_rows) }
        };
        let result = TensorMap {
            address: out,
            element: 2,
            size: (problem.n, problem.m),
            stride: 2 * arguments.out_stride,
            boxes: (RESULT_COLUMNS, self.plan.stored_rows()),
        };
        let (a_box, b_box) = self.plan.fetched_rows();
        let swapped = self.plan.shape.swapped;
        [operand(!swapped, a_box), operand(swapped, b_box), result]
    }

    /// Addresses of the codes and scales of x, quantized by the kernel where x comes in floats.
    fn activations(
        &self,
        operands: &Operands,
        arguments: Arguments,
        simulator: Simulator<'_>,
        device: &mut DeviceMemory,
    ) -> Result<(u64, u64), Fault> {
        let problem = &operands.problem;
        let (rows, k_blocks) = problem.x_scale_shape().expect("plans are made for 8-bit activations");
        let values = match &operands.x {
            Activations::Fp8(x) => {
                let codes = device.allocate(with_gaps(x.codes(), problem.k, arguments.x_stride));
                let scales = floats(&arguments.x_scales.arrange(x.scales(), k_blocks));
                return Ok((codes, device.allocate(scales)));
            }
            Activations::F32(x) => floats(x),
            Activations::Bf16(x) => x.iter().copied().flat_map(bf16::to_le_bytes).collect(),
            Activations::F16(x) => x.iter().copied().flat_map(f16::to_le_bytes).collect(),
        };
        let (program, quantize) = self.quantize.as_ref().expect("float activations come with a kernel");
        let x = device.allocate(values);
        let codes = device.allocate(vec![POISON; problem.m * arguments.x_stride]);
        let scales = device.allocate(vec![POISON; 4 * arguments.x_scales.extent((rows, k_blocks))]);
        let numbers = quantize_numbers(problem, problem.k, arguments.x_stride, arguments.x_scales);
        let numbers = numbers.expect("a simulated problem is small").map(KernelArgument::Number);
        let pointers: [_; QUANTIZE_POINTERS] = [x, codes, scales].map(KernelArgument::Pointer);
        let config = quantize.launch_config(problem, simulator.gpu.sms);
        let launch = Launch {
            program,
            config: config.expect("a simulated problem is small"),
            arguments: pointers.into_iter().chain(numbers).collect(),
            resident_clusters: simulator.resident_ctas,
            seed: simulator.seed,
            max_instructions: self.max_instructions,
        };
        launch.run(device)?;
        Ok((codes, scales))
    }
}

/// Default instruction limit of a kernel.
fn max_instructions(problem: &Problem) -> u64 {
    let stages = [problem.m, problem.n, problem.k].map(|size| size.div_ceil(STAGE_K) as u64);
    stages.into_iter().fold(EXECUTED_PER_STAGE, u64::saturating_mul).saturating_add(EXECUTED_BASE)
}

/// Loads a kernel that is launched with this many threads and parameters.
fn load(ptx: &str, threads: usize, parameters: usize) -> Result<Program, LoadError> {
    let program = Program::parse(ptx)?;
    let (taken, max_threads) = (program.parameters.len(), program.max_threads);
    let message = if taken != parameters {
        format!("the kernel takes {taken} parameters, but the plan passes {parameters}")
    } else if max_threads < threads {
        format!("the kernel takes at most {max_threads} threads per CTA, but the plan launches {threads}")
    } else {
        return Ok(program);
    };
    Err(LoadError::Unsupported { line: 1, message })
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
