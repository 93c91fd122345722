//! The StableHLO module around a kernel: it pads and regroups operands, calls the kernel and slices the
//! result.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use octile_core::{ActivationKind, ScaleGranularity, Strategy, plan::tpu::TpuPlan};
use octile_mosaic::{Attr, Attributes, FunctionBuilder, Module, Type, Value, Visibility};
use serde_json::json;

use super::frame::Operand;
use crate::{
    reference::{Arguments, Blocks},
    stablehlo::{Hlo, element, float},
    tpu::{KernelForm, KernelModule},
};

/// The compiler's numbers for HBM and VMEM.
const HBM: u32 = 0;
const VMEM: u32 = 1;

/// `@main(x, w_q, w_scale[, x_scale]) -> out`.
pub(crate) fn around(plan: &TpuPlan, kernel: &KernelModule, kernel_name: &str, form: KernelForm) -> Module {
    let mut b = FunctionBuilder::new("main", Visibility::Public);
    let arguments = Arguments::declare(&mut b, &plan.problem);
    let mut hlo = Hlo(&mut b);
    let operands: Vec<Value> =
        kernel.operands.iter().map(|&operand| prepared(&mut hlo, plan, &arguments, operand)).collect();
    let config = configuration(hlo.0, plan, kernel, &operands, form);
    let out = call(hlo.0, plan, kernel_name, &config, &operands);
    let out = hlo.take(out, &[plan.problem.m, plan.problem.n]);
    let out = hlo.convert(out, float(plan.problem.out));
    let main = b.finish(&[out], Attributes::new());
    Module { name: Some(kernel_name.to_owned()), attributes: Attributes::new(), functions: vec![main] }
}

/// An operand in the shape and type that the kernel takes.
fn prepared(hlo: &mut Hlo<'_>, plan: &TpuPlan, arguments: &Arguments, operand: Operand) -> Value {
    let given = plan.given();
    match operand {
        Operand::X => {
            let x = hlo.convert(arguments.x, element(plan.x_element()));
            hlo.pad(x, &[given.m, given.k])
        }
        Operand::W => hlo.pad(arguments.w_q, &[given.n, given.k]),
        Operand::WScale => w_scale(hlo, plan, arguments),
        Operand::XScale => x_scale(hlo, plan, arguments),
        Operand::XScaleColumns => {
            let scale = x_scale(hlo, plan, arguments);
            hlo.transpose(scale, &[1, 0])
        }
        Operand::WScaleTiles => {
            let scale = w_scale(hlo, plan, arguments);
            regroup(hlo, scale, plan.w_scale_tile())
        }
        Operand::XScaleTiles => {
            let scale = x_scale(hlo, plan, arguments);
            regroup(hlo, scale, plan.x_scale_tile())
        }
    }
}

fn w_scale(hlo: &mut Hlo<'_>, plan: &TpuPlan, arguments: &Arguments) -> Value {
    hlo.pad(arguments.w_scale, &[plan.w_scale_rows(), plan.grid.k * plan.w_scale_tile().1])
}

/// The scales of x, or the largest magnitudes from which the kernel computes them.
fn x_scale(hlo: &mut Hlo<'_>, plan: &TpuPlan, arguments: &Arguments) -> Value {
    let (rows, cols) = plan.x_scale_tile();
    let qb = plan.problem.quant_block;
    let scale = match (plan.problem.x, arguments.x_scale) {
        (ActivationKind::Quantized(_, granularity), _) => {
            let blocks = Blocks { rows: granularity.rows(qb), cols: qb.size() };
            blocks.abs_max(hlo, arguments.x)
        }
        (_, Some(scale)) => scale,
        (_, None) => panic!("a kernel without activation scales takes none"),
    };
    let scale =
        if plan.row_pipeline.is_some() && plan.problem.x.granularity() == Some(ScaleGranularity::Block) {
            repeated(hlo, scale, qb.size(), plan.given().m)
        } else {
            scale
        };
    let all_rows = if plan.row_pipeline.is_some() { plan.given().m } else { plan.grid.m * rows };
    hlo.pad(scale, &[all_rows, plan.grid.k * cols])
}

/// Repeats the scales of blocks for each of their rows.
fn repeated(hlo: &mut Hlo<'_>, scale: Value, rows: usize, all_rows: usize) -> Value {
    let &[blocks, cols] = hlo.0.ty(scale).shape() else { panic!("scales are a matrix") };
    let scale = hlo.broadcast(scale, &[0, 2], &[blocks, rows, cols]);
    let scale = hlo.reshape(scale, &[blocks * rows, cols]);
    hlo.take(scale, &[all_rows, cols])
}

/// Regroups scales into one small matrix per tile, which a DMA addresses by its leading dimensions.
fn regroup(hlo: &mut Hlo<'_>, scale: Value, (rows, cols): (usize, usize)) -> Value {
    let &[all_rows, all_cols] = hlo.0.ty(scale).shape() else {
        panic!("scales form a matrix");
    };
    let grouped = hlo.reshape(scale, &[all_rows / rows, rows, all_cols / cols, cols]);
    hlo.transpose(grouped, &[0, 2, 1, 3])
}

fn call(
    b: &mut FunctionBuilder,
    plan: &TpuPlan,
    kernel_name: &str,
    configuration: &str,
    operands: &[Value],
) -> Value {
    let row_major = |rank: usize| {
        let order = (0..rank as i64).rev().map(|d| Attr::Integer(d, Type::Index)).collect();
        Attr::Dense(order, Type::tensor([rank], Type::Index))
    };
    let ranks = operands.iter().map(|&operand| b.ty(operand).shape().len());
    let operand_layouts: Vec<Attr> = ranks.map(row_major).collect();
    let attributes = Attributes::new()
        .with("call_target_name", "tpu_custom_call")
        .with("backend_config", configuration)
        .with("kernel_name", kernel_name)
        .with("operand_layouts", Attr::Array(operand_layouts))
        .with("result_layouts", Attr::Array(vec![row_major(2)]));
    let given = plan.given();
    let ty = Type::tensor([given.m, given.n], float(plan.kernel_out()));
    // The compiler names its dumps after the location.
    b.located(format!("jit({kernel_name})/{kernel_name}"), |b| {
        b.op1("stablehlo.custom_call", operands, ty, attributes)
    })
}

/// The compiler's configuration of the call. Operands are pinned to HBM: the compiler would copy small ones
/// into VMEM first. It insists on placing arrays of one element itself. So is a result that other operations
/// take. The result of a whole program is in HBM anyway, and a pinned one would be copied there.
fn configuration(
    b: &FunctionBuilder,
    plan: &TpuPlan,
    kernel: &KernelModule,
    operands: &[Value],
    form: KernelForm,
) -> String {
    let is_array = |&(_, &operand): &(usize, &Value)| b.ty(operand).shape().iter().any(|&extent| extent > 1);
    let arrays = operands.iter().enumerate().filter(is_array);
    let pinned: Vec<_> = arrays.map(|(index, _)| json!({"operand_index": index, "color": HBM})).collect();
    // `dma` and `smem` are for learning and keep the compiler's check that semaphores end at zero.
    let unchecked = matches!(plan.strategy, Strategy::Auto | Strategy::Strip);
    let body = match form {
        KernelForm::Current => kernel.module.to_string(),
        KernelForm::Serialized => kernel.module.stable().to_string(),
    };
    let is_program_result = form == KernelForm::Current
        && (plan.given().m, plan.given().n) == (plan.problem.m, plan.problem.n)
        && plan.kernel_out() == plan.problem.out;
    let pinned_results = if is_program_result { json!([]) } else { json!([{"color": HBM}]) };
    let mut configuration = json!({
        "custom_call_config": {
            "body": STANDARD.encode(body),
            "needs_layout_passes": true,
            "input_memory_space_colors": pinned,
            "output_memory_space_colors": pinned_results,
            "cost_estimate": {
                "flops": plan.cost.flops,
                "transcendentals": 0,
                "bytes_accessed": plan.cost.bytes_accessed,
            },
            // Tiles divide padded operands, and the compiler clips tiles of the others.
            "disable_bounds_checks": true,
            "disable_semaphore_checks": unchecked,
        },
        "scoped_memory_configs": [{"memory_space": VMEM, "offset": 0, "size": plan.vmem_limit}],
    });
    if form == KernelForm::Serialized {
        configuration["custom_call_config"]["serialization_format"] = json!(1);
    }
    configuration.to_string()
}
