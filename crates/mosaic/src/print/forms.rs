//! Custom assembly forms, one per operation.

use std::fmt::{self, Write};

use super::Printer;
use crate::{
    attribute::{Attr, Attributes},
    ir::{Op, Region},
    types::Type,
};

/// Integer comparison predicates, in MLIR's order.
pub(crate) const INT_PREDICATES: [&str; 10] =
    ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"];
/// Float comparison predicates, in MLIR's order.
pub(crate) const FLOAT_PREDICATES: [&str; 16] = [
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une",
    "uno", "true",
];

impl Printer<'_> {
    /// Prints the custom form. Returns false and prints nothing if the operation has none, or if that form
    /// cannot express everything this operation holds: generic text may attach anything to an operation.
    pub(super) fn short_form(&self, op: &Op, depth: usize, out: &mut impl Write) -> Result<bool, fmt::Error> {
        if !self.is_regular(op) {
            return Ok(false);
        }
        match op.name.as_ref() {
            "arith.constant" => self.constant(op, out)?,
            "arith.addi" | "arith.subi" | "arith.muli" | "arith.divsi" | "arith.remsi" | "arith.andi"
            | "arith.addf" | "arith.subf" | "arith.mulf" | "arith.divf" | "arith.maximumf" => {
                write!(out, "{} {}", op.name, self.list(&op.operands))?;
                self.braces(&op.attributes, &[], out)?;
                write!(out, " : {}", self.ty(op.operands[0]))?;
            }
            "arith.cmpi" => self.compare(op, &INT_PREDICATES, out)?,
            "arith.cmpf" => self.compare(op, &FLOAT_PREDICATES, out)?,
            "arith.select" => self.select(op, out)?,
            "arith.index_cast"
            | "arith.extf"
            | "arith.truncf"
            | "arith.extui"
            | "vector.broadcast"
            | "vector.shape_cast"
            | "vector.extract_strided_slice" => self.cast(op, "to", out)?,
            "tpu.memref_squeeze" => self.cast(op, "->", out)?,
            "vector.load" => self.load(op, &op.results, out)?,
            "memref.load" => self.load(op, &[], out)?,
            "tpu.memref_slice" => {
                self.access(op, 0, out)?;
                write!(out, " : {} -> {}", self.ty(op.operands[0]), self.types(&op.results))?;
            }
            "tpu.vector_store" => self.vector_store(op, out)?,
            "tpu.assume_multiple" => self.assume_multiple(op, out)?,
            "tpu.matmul" => {
                write!(out, "{} {}", op.name, self.list(&op.operands))?;
                self.braces(&op.attributes, &[], out)?;
                write!(out, " : {} -> {}", self.types(&op.operands), self.types(&op.results))?;
            }
            "tpu.enqueue_dma" => self.roles(op, &["source", "target", "target_semaphore"], out)?,
            "tpu.wait_dma2" => self.roles(op, &["semaphore", "src", "dst"], out)?,
            "scf.if" => self.if_(op, depth, out)?,
            "scf.for" => self.for_(op, depth, out)?,
            "scf.yield" | "func.return" => self.terminator(op, out)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns whether the operation has exactly what its custom form can express: the expected numbers of
    /// operands, results and regions, the types its parser infers, and no other attributes.
    fn is_regular(&self, op: &Op) -> bool {
        let ty = |&value| self.ty(value);
        let (operands, results) = (op.operands.len(), op.results.len());
        let first = op.operands.first().map(ty);
        let result = op.results.first().map(ty);
        let alike = first.is_some() && op.operands.iter().map(ty).all(|ty| Some(ty) == first);
        let only = |spelled: &[&str]| op.attributes.without(spelled).is_empty();
        let is_nested = matches!(op.name.as_ref(), "scf.if" | "scf.for");
        if !is_nested && !op.regions.is_empty() {
            return false;
        }
        let compares = |predicates: &[&str]| {
            let result_is_known = first.map(|ty| ty.with_element(Type::I1)).as_ref() == result;
            predicate(op, predicates).is_some() && alike && results == 1 && result_is_known
        };
        match op.name.as_ref() {
            "arith.constant" => {
                let value = op.attributes.get("value").and_then(constant_type);
                operands == 0 && results == 1 && value.as_ref() == result && only(&["value"])
            }
            "arith.cmpi" => compares(&INT_PREDICATES),
            "arith.cmpf" => compares(&FLOAT_PREDICATES),
            "arith.select" => {
                let choices = op.operands.iter().skip(1).map(ty).all(|ty| Some(ty) == result);
                operands == 3 && results == 1 && choices && only(&[])
            }
            "arith.index_cast"
            | "arith.extf"
            | "arith.truncf"
            | "arith.extui"
            | "vector.broadcast"
            | "vector.shape_cast"
            | "vector.extract_strided_slice"
            | "tpu.memref_squeeze" => operands == 1 && results == 1,
            "vector.load" | "tpu.matmul" => operands > 0 && results == 1,
            "memref.load" => first.map(Type::element) == result && result.is_some() && results == 1,
            "tpu.memref_slice" => operands > 0 && results == 1 && only(&[]),
            "tpu.vector_store" => {
                operands > 1 && results == 0 && op.attributes.get("operandSegmentSizes").is_none()
            }
            "tpu.assume_multiple" => {
                let multiple =
                    matches!(op.attributes.get("multiple"), Some(Attr::Integer(_, ty)) if *ty == Type::I32);
                operands == 1 && results == 1 && first == result && multiple && only(&["multiple"])
            }
            "tpu.enqueue_dma" => {
                let local = Attr::I32s(LOCAL_COPY.to_vec());
                operands == 3 && results == 0 && op.attributes.get("operandSegmentSizes") == Some(&local)
            }
            "tpu.wait_dma2" => {
                operands == 3 && results == 0 && op.attributes.get("operandSegmentSizes").is_none()
            }
            "scf.if" => {
                let plain = op.regions.iter().all(|region| region.arguments.is_empty());
                let ends = matches!(&op.regions[..], [then, otherwise]
                    if ends_with_yield(then) && (otherwise.ops.is_empty() || ends_with_yield(otherwise)));
                operands == 1 && results == 0 && plain && ends && only(&[])
            }
            "scf.for" => {
                let counts =
                    matches!(&op.regions[..], [body] if body.arguments.len() == 1 && ends_with_yield(body));
                operands == 3 && results == 0 && counts && only(&[])
            }
            "scf.yield" | "func.return" => results == 0 && only(&[]),
            // Operations whose operands and result share one type; irrelevant for names without a custom
            // form.
            _ => alike && results == 1 && first == result,
        }
    }

    fn constant(&self, op: &Op, out: &mut impl Write) -> fmt::Result {
        out.write_str("arith.constant ")?;
        op.attributes.get("value").map_or(Ok(()), |value| write!(out, "{value}"))
    }

    fn compare(&self, op: &Op, predicates: &[&str], out: &mut impl Write) -> fmt::Result {
        let word = predicate(op, predicates).unwrap_or_default();
        write!(out, "{} {word}, {}", op.name, self.list(&op.operands))?;
        self.braces(&op.attributes, &["predicate"], out)?;
        write!(out, " : {}", self.ty(op.operands[0]))
    }

    fn select(&self, op: &Op, out: &mut impl Write) -> fmt::Result {
        write!(out, "arith.select {} : ", self.list(&op.operands))?;
        let condition = self.ty(op.operands[0]);
        if !condition.shape().is_empty() {
            write!(out, "{condition}, ")?;
        }
        write!(out, "{}", self.ty(op.operands[1]))
    }

    fn cast(&self, op: &Op, arrow: &str, out: &mut impl Write) -> fmt::Result {
        write!(out, "{} {}", op.name, self.name(op.operands[0]))?;
        self.braces(&op.attributes, &[], out)?;
        write!(out, " : {} {arrow} {}", self.ty(op.operands[0]), self.types(&op.results))
    }

    /// Prints `name %memref[%i, %j]`; the memref is operand `base`, the indices follow.
    fn access(&self, op: &Op, base: usize, out: &mut impl Write) -> fmt::Result {
        let indices = self.list(&op.operands[base + 1..]);
        write!(out, "{} {}[{indices}]", op.name, self.name(op.operands[base]))
    }

    fn load(&self, op: &Op, loaded: &[crate::Value], out: &mut impl Write) -> fmt::Result {
        self.access(op, 0, out)?;
        self.braces(&op.attributes, &[], out)?;
        write!(out, " : {}", self.ty(op.operands[0]))?;
        match loaded {
            [] => Ok(()),
            loaded => write!(out, ", {}", self.types(loaded)),
        }
    }

    fn assume_multiple(&self, op: &Op, out: &mut impl Write) -> fmt::Result {
        let value = op.operands[0];
        write!(out, "{} {}, ", op.name, self.name(value))?;
        if let Some(Attr::Integer(multiple, _)) = op.attributes.get("multiple") {
            write!(out, "{multiple}")?;
        }
        write!(out, " : {}", self.ty(value))
    }

    fn vector_store(&self, op: &Op, out: &mut impl Write) -> fmt::Result {
        self.access(op, 1, out)?;
        write!(out, ", {}", self.name(op.operands[0]))?;
        self.braces(&op.attributes, &[], out)?;
        let (vector, memref) = (self.ty(op.operands[0]), self.ty(op.operands[1]));
        // The trailing comma precedes the mask type, which is absent.
        write!(out, " : {memref}, {vector},")
    }

    /// Prints `name role(%operand : type) ...`.
    fn roles(&self, op: &Op, roles: &[&str], out: &mut impl Write) -> fmt::Result {
        out.write_str(&op.name)?;
        for (&operand, role) in op.operands.iter().zip(roles) {
            write!(out, " {role}({} : {})", self.name(operand), self.ty(operand))?;
        }
        self.braces(&op.attributes, &["operandSegmentSizes"], out)
    }

    fn if_(&self, op: &Op, depth: usize, out: &mut impl Write) -> fmt::Result {
        write!(out, "scf.if {} ", self.name(op.operands[0]))?;
        self.braced(&op.regions[0], depth, out)?;
        match &op.regions[1] {
            otherwise if otherwise.ops.is_empty() => Ok(()),
            otherwise => {
                out.write_str(" else ")?;
                self.braced(otherwise, depth, out)
            }
        }
    }

    fn for_(&self, op: &Op, depth: usize, out: &mut impl Write) -> fmt::Result {
        let [from, to, step] = [0, 1, 2].map(|i| self.name(op.operands[i]));
        let counter = op.regions[0].arguments[0];
        write!(out, "scf.for {} = {from} to {to} step {step} : {} ", self.name(counter), self.ty(counter))?;
        self.braced(&op.regions[0], depth, out)
    }

    /// Prints a region in braces, without the implied empty yield.
    fn braced(&self, region: &Region, depth: usize, out: &mut impl Write) -> fmt::Result {
        let ops = match region.ops.split_last() {
            Some((last, before)) if is_plain_yield(last) => before,
            _ => &region.ops,
        };
        out.write_str("{\n")?;
        self.ops(ops, depth + 1, out)?;
        write!(out, "{:width$}}}", "", width = 2 * depth)
    }

    fn terminator(&self, op: &Op, out: &mut impl Write) -> fmt::Result {
        out.write_str(op.name.strip_prefix("func.").unwrap_or(&op.name))?;
        if op.operands.is_empty() {
            return Ok(());
        }
        write!(out, " {} : {}", self.list(&op.operands), self.types(&op.operands))
    }
}

/// Operand count of a local DMA: source, target and semaphore.
const LOCAL_COPY: [i32; 6] = [1, 0, 1, 1, 0, 0];

/// Returns the keyword of a comparison predicate.
fn predicate<'a>(op: &Op, predicates: &[&'a str]) -> Option<&'a str> {
    match op.attributes.get("predicate") {
        Some(Attr::Integer(number, ty)) if *ty == Type::I64 => {
            predicates.get(usize::try_from(*number).ok()?).copied()
        }
        _ => None,
    }
}

/// Infers the type of a constant from its value.
pub(crate) fn constant_type(value: &Attr) -> Option<Type> {
    match value {
        Attr::Integer(_, ty) | Attr::Float(_, ty) | Attr::Splat(_, ty) | Attr::Dense(_, ty) => {
            Some(ty.clone())
        }
        Attr::Bool(_) => Some(Type::I1),
        _ => None,
    }
}

fn ends_with_yield(region: &Region) -> bool {
    region.ops.last().is_some_and(|op| op.name == "scf.yield")
}

/// Returns whether this is an empty yield without attributes.
fn is_plain_yield(op: &Op) -> bool {
    let bare = op.operands.is_empty() && op.results.is_empty() && op.regions.is_empty();
    op.name == "scf.yield" && bare && op.attributes == Attributes::new() && op.location.is_none()
}
