//! Prints a kernel in the serialized dialect, `stable_mosaic`, which a compiler upgrades to its own version.
//!
//! Programs that were lowered and stored keep compiling: a newer libtpu upgrades the kernel, an older one
//! knows the version. Every operation is in generic form, so no compiler's custom syntax matters.

use std::{
    borrow::Cow,
    fmt::{self, Display},
};

use super::Printer;
use crate::{
    attribute::{Attr, Attributes},
    ir::{Function, Module, Op, Region, Visibility},
    types::{Type, join},
};

/// The version to print. The operations that our kernels use have had this form since then.
const VERSION: usize = 3;
const SEGMENTS: &str = "operandSegmentSizes";

/// A module, to be printed in the serialized dialect.
pub struct Stable<'a>(pub(crate) &'a Module);

impl Module {
    /// Displays the module in the serialized dialect, for `serialization_format: 1` of a custom call.
    pub fn stable(&self) -> Stable<'_> {
        Stable(self)
    }
}

impl Display for Stable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = Attributes::new().with("stable_mosaic.version", Attr::i64(VERSION));
        writeln!(f, "module attributes {version} {{")?;
        for function in &self.0.functions {
            let mut function = function.clone();
            serialize(&mut function.body);
            f.write_str("  ")?;
            Printer::new(&function).generic_form(&operation(&function), 1, f)?;
            f.write_str("\n")?;
        }
        f.write_str("}\n")
    }
}

/// A function as an operation with a region.
fn operation(function: &Function) -> Op {
    let arguments = function.body.arguments.iter().map(|&value| function.ty(value));
    let ty = format!("({}) -> ({})", join(arguments, ", "), join(&function.results, ", "));
    let mut attributes = function.attributes.clone();
    attributes = attributes.with("function_type", Attr::Type(Type::Other(ty)));
    attributes = attributes.with("sym_name", function.name.as_str());
    if function.visibility == Visibility::Private {
        attributes = attributes.with("sym_visibility", "private");
    }
    Op {
        name: Cow::Borrowed("stable_mosaic.func.func"),
        operands: Vec::new(),
        results: Vec::new(),
        attributes,
        regions: vec![function.body.clone()],
        location: None,
        place: None,
        source: None,
    }
}

fn serialize(region: &mut Region) {
    for op in &mut region.ops {
        op.attributes = attributes(op);
        op.name = Cow::Owned(format!("stable_mosaic.{}", op.name));
        op.regions.iter_mut().for_each(serialize);
    }
}

/// The attributes with the defaults that custom forms leave out, and without those of later versions.
fn attributes(op: &Op) -> Attributes {
    let given = op.attributes.without(&["transpose_lhs_hint"]);
    let segments = |counts: &[usize]| Attr::I32s(counts.iter().map(|&count| count as i32).collect());
    let operands = op.operands.len();
    match op.name.as_ref() {
        "tpu.matmul" => ["transpose_lhs", "transpose_rhs"]
            .into_iter()
            .filter(|name| op.attributes.get(name).is_none())
            .fold(given, |attributes, name| attributes.with(name, false)),
        "tpu.memref_slice" => given.with(SEGMENTS, segments(&[1, operands - 1, 0])),
        "tpu.vector_store" => given.with("add", false).with(SEGMENTS, segments(&[1, 1, operands - 2, 0])),
        _ => given,
    }
}
