//! A StableHLO program around a kernel that has none, so that it can be compiled.

use anyhow::{Context, Result, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use octile_core::device::tpu::TpuChip;
use octile_mosaic::{
    Attr, Attributes, FunctionBuilder, Module, Type, Value, Visibility,
    interpret::{CallTypes, Options},
};
use serde_json::json;

use crate::kernel_file::{KernelContent, KernelFile};

/// The compiler's number for HBM.
const HBM: u32 = 0;
/// The serialized dialect, which the compiler upgrades first.
const STABLE: &str = "stable_mosaic";
/// Its operations in text. A module that was upgraded may still have an attribute with its version.
const STABLE_OPERATION: &str = "\"stable_mosaic.";

/// A program that calls one kernel.
pub(super) struct ProgramAround {
    /// The program.
    pub stablehlo: String,
    /// Whether extents of operands depend on values of others, and were assumed.
    pub assumed: bool,
}

/// Writes a program that passes its arguments to the kernel and returns its results.
pub(super) fn program(content: &KernelContent, file: &KernelFile, chip: &TpuChip) -> Result<ProgramAround> {
    let types = CallTypes::of(&file.module, &Options::for_chip(chip))
        .with_context(|| format!("{} cannot be called: pass the program around it instead", file.name))?;
    if types.results.is_empty() {
        bail!("{} writes none of its operands: a compiler would remove its call", file.name);
    }
    let mut b = FunctionBuilder::new("main", Visibility::Public);
    let argument = |(number, ty): (usize, &Type)| b.argument(format!("arg{number}"), ty.clone());
    let operands: Vec<Value> = types.operands.iter().enumerate().map(argument).collect();
    let attributes = Attributes::new()
        .with("call_target_name", "tpu_custom_call")
        .with("backend_config", configuration(content, &types).as_str())
        .with("kernel_name", types.name.as_str())
        .with("operand_layouts", layouts(&types.operands))
        .with("result_layouts", layouts(&types.results));
    // The compiler names its dumps after the location.
    let location = format!("jit({0})/{0}", types.name);
    let results = b.located(location, |b| {
        b.op("stablehlo.custom_call", &operands, &types.results, attributes, Vec::new())
    });
    let main = b.finish(&results, Attributes::new());
    let module =
        Module { name: Some(types.name.clone()), attributes: Attributes::new(), functions: vec![main] };
    Ok(ProgramAround { stablehlo: module.to_string(), assumed: types.assumed })
}

/// Row-major layouts of tensors.
fn layouts(types: &[Type]) -> Attr {
    let layout = |ty: &Type| {
        let rank = ty.shape().len();
        let order = (0..rank as i64).rev().map(|dimension| Attr::Integer(dimension, Type::Index)).collect();
        Attr::Dense(order, Type::tensor([rank], Type::Index))
    };
    Attr::Array(types.iter().map(layout).collect())
}

/// The configuration of the call: the kernel in its own form, so that it keeps its Python lines.
fn configuration(content: &KernelContent, types: &CallTypes) -> String {
    let (body, is_stable) = match content {
        KernelContent::Text(text) => (text.as_bytes(), text.contains(STABLE_OPERATION)),
        KernelContent::Bytecode(bytes) => (bytes.as_slice(), contains(bytes, STABLE)),
    };
    let mut config = json!({"body": STANDARD.encode(body), "needs_layout_passes": true});
    if is_stable {
        config["serialization_format"] = json!(1);
    }
    if types.communicates || types.has_barrier {
        config["has_communication"] = json!(true);
    }
    if types.has_barrier {
        config["collective_id"] = json!(0);
    }
    // The compiler insists on placing arrays of one element itself.
    let is_array = |number: &&usize| types.operands[**number].shape().iter().any(|&extent| extent > 1);
    let pinned: Vec<_> = types.in_hbm.iter().filter(is_array).collect();
    if !pinned.is_empty() {
        let color = |number| json!({"operand_index": number, "color": HBM});
        config["input_memory_space_colors"] = pinned.into_iter().map(color).collect();
    }
    json!({"custom_call_config": config}).to_string()
}

fn contains(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|window| window == word.as_bytes())
}
