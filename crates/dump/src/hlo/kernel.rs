//! Custom calls of TPU kernels and their `backend_config`.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::Value;

use super::{Instruction, Module, Shape};
use crate::source::Place;

/// The kernel that a call embeds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelBody {
    /// Mosaic as text.
    Text(String),
    /// Mosaic as MLIR bytecode, which this crate does not decode.
    Bytecode {
        /// For example `MLIR23.0.0git`.
        producer: String,
        /// Length.
        bytes: usize,
    },
    /// Neither.
    Unreadable {
        /// What is wrong with it.
        what: String,
    },
}

/// An operand of a kernel call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallOperand {
    /// The instruction it comes from, without `%`.
    pub name: String,
    /// Its shape and layout.
    pub shape: Option<Shape>,
}

/// A call of a TPU kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelCall {
    /// The instruction, without `%`.
    pub name: String,
    /// Where it is.
    pub place: Place,
    /// Operands.
    pub operands: Vec<CallOperand>,
    /// Result shape.
    pub result: Option<Shape>,
    /// The program.
    pub body: Option<KernelBody>,
    /// The program as it is embedded, in base64.
    #[serde(skip)]
    pub encoded: Option<String>,
    /// VMEM limit in bytes.
    pub vmem_limit: Option<u64>,
    /// VMEM use in bytes.
    pub vmem_used: Option<u64>,
    /// Operands pinned to HBM.
    pub pinned_to_hbm: Vec<usize>,
}

impl Module<'_> {
    /// Every call of a TPU kernel.
    pub fn kernel_calls(&self) -> Vec<KernelCall> {
        let calls = self.instructions().filter(|instruction| {
            let target = self.attribute(instruction, "custom_call_target");
            self.str(instruction.opcode) == "custom-call" && target == Some("\"tpu_custom_call\"")
        });
        calls.map(|call| self.kernel_call(call)).collect()
    }

    fn kernel_call(&self, call: &Instruction) -> KernelCall {
        let config = self.attribute(call, "backend_config").and_then(json).unwrap_or_default();
        let kernel = &config["custom_call_config"];
        let operands = call.operands.iter().flatten().map(|operand| {
            let name = self.operand_name(*operand);
            let producer = self.in_scope(call, name);
            CallOperand { name: name.to_owned(), shape: producer.and_then(|producer| self.shape(producer)) }
        });
        let pinned = kernel["input_memory_space_colors"].as_array().into_iter().flatten();
        let pinned = pinned.filter(|color| number(&color["color"]).unwrap_or(0) == 0);
        KernelCall {
            name: self.name(call).to_owned(),
            place: self.place(call.span),
            operands: operands.collect(),
            result: self.shape(call),
            body: kernel["body"].as_str().map(KernelBody::decode),
            encoded: kernel["body"].as_str().map(str::to_owned),
            vmem_limit: vmem(&config["scoped_memory_configs"]),
            vmem_used: vmem(&config["used_scoped_memory_configs"]),
            pinned_to_hbm: pinned
                .map(|color| number(&color["operand_index"]).unwrap_or(0) as usize)
                .collect(),
        }
    }
}

impl KernelBody {
    /// Decodes the base64 of a call.
    pub fn decode(base64: &str) -> Self {
        const BYTECODE: &[u8] = b"ML\xefR";
        let bytes = match STANDARD.decode(base64) {
            Ok(bytes) => bytes,
            Err(error) => return Self::Unreadable { what: format!("the body is not base64: {error}") },
        };
        if bytes.starts_with(BYTECODE) {
            // Magic, version, then the zero-terminated producer.
            let producer = bytes.get(BYTECODE.len() + 1..).unwrap_or_default();
            let producer = producer.split(|&b| b == 0).next().unwrap_or_default();
            let producer = String::from_utf8_lossy(producer).into_owned();
            return Self::Bytecode { producer, bytes: bytes.len() };
        }
        match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => Self::Text(text),
            _ => Self::Unreadable { what: "the body is neither text nor MLIR bytecode".to_owned() },
        }
    }
}

/// Parses a configuration: JSON, or a string of JSON.
fn json(value: &str) -> Option<Value> {
    match serde_json::from_str(value).ok()? {
        Value::String(inner) => serde_json::from_str(&inner).ok(),
        value => Some(value),
    }
}

/// Numbers are written as strings.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// The size of memory space 1 in a list of scoped memories.
fn vmem(configs: &Value) -> Option<u64> {
    let configs = configs.as_array()?;
    let vmem = configs.iter().find(|config| number(&config["memory_space"]) == Some(1))?;
    number(&vmem["size"])
}
