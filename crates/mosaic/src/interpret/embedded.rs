//! The kernels inside a StableHLO module: custom calls, their configuration and their bodies.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet, VecDeque},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    naming::apply_names,
    program::{Refusal, Unrunnable},
};
use crate::{
    attribute::Attr,
    bytecode::{is_bytecode, read},
    ir::{Function, Module, Op},
    parse::parse,
    types::Type,
};

/// A result that shares its memory with an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputAlias {
    /// Number of the result.
    pub output: usize,
    /// Number of the operand.
    pub operand: usize,
}

/// A kernel that a StableHLO module calls.
#[derive(Clone, Debug)]
pub struct EmbeddedKernel {
    /// Its name, unique in the module: a second kernel `k` is `k#2`.
    pub name: String,
    /// The kernel; positions refer to [`Self::text`].
    pub module: Module,
    /// Text of the kernel.
    pub text: String,
    /// Types of the call's operands.
    pub operands: Vec<Type>,
    /// Types of the call's results.
    pub results: Vec<Type>,
    /// Results that share memory with operands.
    pub aliases: Vec<OutputAlias>,
    /// VMEM limit that the call sets, in bytes.
    pub vmem_limit: Option<u64>,
}

/// Call target of Mosaic kernels.
pub(super) const TARGET: &str = "tpu_custom_call";

/// Keys of the call's configuration: the kernel, and settings that do not affect results.
const CONFIG_KEYS: [&str; 15] = [
    "body",
    "serialization_format",
    "needs_layout_passes",
    "needs_hlo_passes",
    "input_memory_space_colors",
    "output_memory_space_colors",
    "cost_estimate",
    "disable_bounds_checks",
    "disable_semaphore_checks",
    "allow_input_fusion",
    "has_communication",
    "collective_id",
    "internal_scratch_in_bytes",
    "shape_invariant_numerics",
    "skip_device_barrier",
];

/// Returns every kernel that a module calls, in the order of its text; empty for a module that calls none.
pub fn embedded_kernels(module: &Module) -> Result<Vec<EmbeddedKernel>, Unrunnable> {
    let names = kernel_names(module);
    let mut kernels = Ok(Vec::new());
    for function in &module.functions {
        function.walk(&mut |op| {
            let Ok(found) = &mut kernels else { return };
            let Some(name) = names.get(&std::ptr::from_ref(op)) else { return };
            match embedded(function, op, name) {
                Ok(kernel) => found.push(kernel),
                Err(error) => kernels = Err(error),
            }
        });
    }
    kernels
}

fn embedded(function: &Function, op: &Op, name: &str) -> Result<EmbeddedKernel, Unrunnable> {
    let types =
        |values: &[crate::ir::Value]| values.iter().map(|&value| function.ty(value).clone()).collect();
    let call = KernelCall::of(op).map_err(|refusal| refusal.at(op))?;
    Ok(EmbeddedKernel {
        name: name.to_owned(),
        module: call.module,
        text: call.text,
        operands: types(&op.operands),
        results: types(&op.results),
        aliases: call.aliases,
        vmem_limit: call.vmem_limit,
    })
}

/// Names of the kernels by their calls.
pub(super) fn kernel_names(module: &Module) -> HashMap<*const Op, String> {
    let (mut names, mut taken) = (HashMap::new(), HashSet::new());
    let mut uses: HashMap<String, usize> = HashMap::new();
    for function in &module.functions {
        function.walk(&mut |op| {
            if !is_kernel_call(op) {
                return;
            }
            let name = match op.attributes.get("kernel_name") {
                Some(Attr::String(name)) if !name.is_empty() => name.clone(),
                _ => "kernel".to_owned(),
            };
            let uses = uses.entry(name.clone()).or_default();
            // A numbered name may be the own name of another kernel.
            let unique = loop {
                *uses += 1;
                let candidate = if *uses == 1 { name.clone() } else { format!("{name}#{uses}") };
                if taken.insert(candidate.clone()) {
                    break candidate;
                }
            };
            names.insert(std::ptr::from_ref(op), unique);
        });
    }
    names
}

/// Returns whether an operation calls a Mosaic kernel.
pub(super) fn is_kernel_call(op: &Op) -> bool {
    op.name == "stablehlo.custom_call" && call_target(op) == Some(TARGET)
}

/// Target of a custom call.
pub(super) fn call_target(op: &Op) -> Option<&str> {
    match op.attributes.get("call_target_name") {
        Some(Attr::String(target)) => Some(target),
        _ => None,
    }
}

/// What one custom call says about its kernel.
pub(super) struct KernelCall {
    pub(super) module: Module,
    text: String,
    pub(super) aliases: Vec<OutputAlias>,
    pub(super) vmem_limit: Option<u64>,
}

impl KernelCall {
    /// Decodes the call's configuration and its kernel.
    pub(super) fn of(op: &Op) -> Result<Self, Refusal> {
        let Some(Attr::String(configuration)) = op.attributes.get("backend_config") else {
            return Err("attribute 'backend_config' is not a string".into());
        };
        let json: serde_json::Value = serde_json::from_str(configuration)
            .map_err(|error| format!("backend_config is not JSON: {error}"))?;
        check_config(&json)?;
        let Some(body) = json["custom_call_config"]["body"].as_str() else {
            return Err("backend_config has no custom_call_config.body".into());
        };
        let (mut module, text) = body_module(body)?;
        apply_names(op, &mut module);
        let limit = json["scoped_memory_configs"].as_array().and_then(|configs| {
            let vmem = configs.iter().find(|config| config["memory_space"] == 1)?;
            vmem["size"].as_u64()
        });
        Ok(Self { module, text, aliases: aliases(op)?, vmem_limit: limit })
    }
}

fn check_config(json: &serde_json::Value) -> Result<(), Refusal> {
    let mut keys = json["custom_call_config"].as_object().into_iter().flatten();
    if let Some((key, value)) = keys.find(|(key, _)| !CONFIG_KEYS.contains(&key.as_str())) {
        return Err(Refusal::NotModelled(format!("custom_call_config.{key} = {value:.80} is not supported")));
    }
    match json["device_type"].as_str() {
        Some(device) if device != "DEVICE_TYPE_TENSORCORE" => {
            let message = format!("kernels for {device} are not supported: one TensorCore is simulated");
            Err(Refusal::NotModelled(message))
        }
        _ => Ok(()),
    }
}

/// Kernels that are kept decoded.
const KEPT: usize = 16;
/// Bodies longer than this are not kept.
const KEPT_BYTES: usize = 1 << 20;

thread_local! {
    /// The kernels decoded last, by their bodies. One simulation needs each several times: for its text, for
    /// the names of its operands and for its program.
    static DECODED: RefCell<VecDeque<(String, (Module, String))>> = const { RefCell::new(VecDeque::new()) };
}

/// Decodes a kernel's body, unless it was decoded lately.
fn body_module(body: &str) -> Result<(Module, String), Refusal> {
    let known = DECODED
        .with_borrow(|kept| kept.iter().find(|(known, _)| known == body).map(|(_, decoded)| decoded.clone()));
    if let Some(decoded) = known {
        return Ok(decoded);
    }
    let decoded = decoded_body(body)?;
    if body.len() <= KEPT_BYTES {
        DECODED.with_borrow_mut(|kept| {
            kept.truncate(KEPT - 1);
            kept.push_front((body.to_owned(), decoded.clone()));
        });
    }
    Ok(decoded)
}

/// Decodes a kernel's base64 body: MLIR bytecode, or text.
fn decoded_body(body: &str) -> Result<(Module, String), Refusal> {
    let bytes = STANDARD.decode(body).map_err(|error| format!("the kernel's body is not base64: {error}"))?;
    if is_bytecode(&bytes) {
        let module =
            read(&bytes).map_err(|error| format!("the kernel in the call's configuration: {error}"))?;
        return Ok(module.into_text());
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| "the kernel's body is neither MLIR bytecode nor text: lower it again")?;
    let module = parse(&text).map_err(|error| format!("the kernel in the call's configuration: {error}"))?;
    Ok((module, text))
}

/// Reads `output_operand_aliases`.
fn aliases(op: &Op) -> Result<Vec<OutputAlias>, Refusal> {
    let Some(attr) = op.attributes.get("output_operand_aliases") else { return Ok(Vec::new()) };
    let bad = || Refusal::from(format!("output_operand_aliases cannot be read: {attr:.120}"));
    let Attr::Array(items) = attr else { return Err(bad()) };
    items.iter().map(|item| alias(&item.to_string(), op.results.len()).ok_or_else(bad)).collect()
}

/// Reads `#stablehlo.output_operand_alias<output_tuple_indices = [1], operand_index = 0, ...>`.
fn alias(text: &str, results: usize) -> Option<OutputAlias> {
    let inside = text.strip_prefix("#stablehlo.output_operand_alias<")?.strip_suffix('>')?;
    let field = |name: &str| {
        let (_, rest) = inside.split_once(name)?;
        let value = rest.trim_start().strip_prefix('=')?.trim_start();
        Some(value)
    };
    let list = |name| Some(field(name)?.strip_prefix('[')?.split_once(']')?.0.trim());
    let operand = field("operand_index")?.split([',', ' ']).next()?.trim().parse().ok()?;
    if !list("operand_tuple_indices")?.is_empty() {
        return None;
    }
    let output = match (list("output_tuple_indices")?, results) {
        ("", 1) => 0,
        (index, _) => index.parse().ok()?,
    };
    (output < results).then_some(OutputAlias { output, operand })
}
