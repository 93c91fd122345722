//! The StableHLO module around a kernel: pads, re-lays, calls, cuts.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use octile_core::{ActivationKind, Strategy, plan::tpu::TpuPlan};
use octile_mosaic::{Attr, Attributes, FunctionBuilder, Module, Type, Value, Visibility};
use serde_json::json;

use super::{Kernel, frame::Operand, tile::x_element};
use crate::{
    reference::{Arguments, Blocks},
    stablehlo::{Hlo, float},
};

/// Device memory and vector memory as the compiler's configuration numbers them.
const HBM: u32 = 0;
const VMEM: u32 = 1;

/// `@main(x, w_q, w_scale[, x_scale]) -> out`.
pub(super) fn around(plan: &TpuPlan, kernel: &Kernel, kernel_name: &str) -> Module {
    let mut b = FunctionBuilder::new("main", Visibility::Public);
    let arguments = Arguments::declare(&mut b, &plan.problem);
    let mut hlo = Hlo(&mut b);
    let operands: Vec<Value> =
        kernel.operands.iter().map(|&operand| prepared(&mut hlo, plan, &arguments, operand)).collect();
    let out = call(hlo.0, plan, kernel, kernel_name, &operands);
    let out = hlo.take(out, &[plan.problem.m, plan.problem.n]);
    let out = hlo.convert(out, float(plan.problem.out));
    let main = b.finish(&[out], Attributes::new());
    Module { name: Some(kernel_name.to_owned()), attributes: Attributes::new(), functions: vec![main] }
}

/// An operand as the kernel wants it.
fn prepared(hlo: &mut Hlo<'_>, plan: &TpuPlan, arguments: &Arguments, operand: Operand) -> Value {
    let padded = plan.padded;
    match operand {
        Operand::X => {
            let x = hlo.convert(arguments.x, x_element(plan));
            hlo.pad(x, &[padded.m, padded.k])
        }
        Operand::W => hlo.pad(arguments.w_q, &[padded.n, padded.k]),
        Operand::WScale => w_scale(hlo, plan, arguments),
        Operand::XScale => x_scale(hlo, plan, arguments),
        Operand::WScaleTiles => {
            let scale = w_scale(hlo, plan, arguments);
            cut(hlo, scale, plan.w_scale_tile())
        }
        Operand::XScaleTiles => {
            let scale = x_scale(hlo, plan, arguments);
            cut(hlo, scale, plan.x_scale_tile())
        }
    }
}

fn w_scale(hlo: &mut Hlo<'_>, plan: &TpuPlan, arguments: &Arguments) -> Value {
    let (rows, cols) = plan.w_scale_tile();
    hlo.pad(arguments.w_scale, &[plan.grid.n * rows, plan.grid.k * cols])
}

/// The scales of x, or the largest magnitudes of which the kernel makes them.
fn x_scale(hlo: &mut Hlo<'_>, plan: &TpuPlan, arguments: &Arguments) -> Value {
    let (rows, cols) = plan.x_scale_tile();
    let qb = plan.problem.quant_block;
    let scale = match (plan.problem.x, arguments.x_scale) {
        (ActivationKind::Quantized(_, granularity), _) => {
            let blocks = Blocks { rows: granularity.rows(qb), cols: qb.size() };
            blocks.abs_max(hlo, arguments.x)
        }
        (_, Some(scale)) => scale,
        (_, None) => panic!("a kernel without scales of x asks for none"),
    };
    hlo.pad(scale, &[plan.grid.m * rows, plan.grid.k * cols])
}

/// A matrix of scales as one small matrix per tile, which a copy can address by its leading dimensions.
fn cut(hlo: &mut Hlo<'_>, scale: Value, (rows, cols): (usize, usize)) -> Value {
    let &[all_rows, all_cols] = hlo.0.ty(scale).shape() else {
        panic!("scales are a matrix");
    };
    let grouped = hlo.reshape(scale, &[all_rows / rows, rows, all_cols / cols, cols]);
    hlo.transpose(grouped, &[0, 2, 1, 3])
}

fn call(
    b: &mut FunctionBuilder,
    plan: &TpuPlan,
    kernel: &Kernel,
    kernel_name: &str,
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
        .with("backend_config", configuration(b, plan, kernel, operands).as_str())
        .with("kernel_name", kernel_name)
        .with("operand_layouts", Attr::Array(operand_layouts))
        .with("result_layouts", Attr::Array(vec![row_major(2)]));
    let ty = Type::tensor([plan.padded.m, plan.padded.n], float(plan.kernel_out()));
    // The compiler names its listings after the location.
    b.located(format!("jit({kernel_name})/{kernel_name}"), |b| {
        b.op1("stablehlo.custom_call", operands, ty, attributes)
    })
}

/// What the compiler is told about the call. Operands are pinned to device memory: the compiler would else copy
/// small ones whole into vector memory first. It has a place of its own for a single number, and insists on it.
fn configuration(b: &FunctionBuilder, plan: &TpuPlan, kernel: &Kernel, operands: &[Value]) -> String {
    let is_array = |&(_, &operand): &(usize, &Value)| b.ty(operand).shape().iter().any(|&extent| extent > 1);
    let arrays = operands.iter().enumerate().filter(is_array);
    let pinned: Vec<_> = arrays.map(|(index, _)| json!({"operand_index": index, "color": HBM})).collect();
    // `dma` and `smem` are for learning and keep the compiler's check that no count is left over.
    let unchecked = matches!(plan.strategy, Strategy::Auto | Strategy::Strip);
    json!({
        "custom_call_config": {
            "body": STANDARD.encode(kernel.module.to_string()),
            "needs_layout_passes": true,
            "input_memory_space_colors": pinned,
            "output_memory_space_colors": [{"color": HBM}],
            "cost_estimate": {
                "flops": plan.cost.flops,
                "transcendentals": 0,
                "bytes_accessed": plan.cost.bytes_accessed,
            },
            // Tiles divide the padded operands: no index can leave them.
            "disable_bounds_checks": true,
            "disable_semaphore_checks": unchecked,
        },
        "scoped_memory_configs": [{"memory_space": VMEM, "offset": 0, "size": plan.vmem_limit}],
    })
    .to_string()
}
