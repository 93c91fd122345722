//! The short forms, one per operation.

use std::fmt::{self, Write};

use super::Printer;
use crate::{
    attribute::Attr,
    ir::{Op, Region},
};

/// Comparisons of integers, in MLIR's order.
pub(crate) const INT_PREDICATES: [&str; 10] =
    ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"];
/// Comparisons of floats, in MLIR's order.
pub(crate) const FLOAT_PREDICATES: [&str; 16] = [
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une",
    "uno", "true",
];

impl Printer<'_> {
    /// Prints the operation's short form; says no, and prints nothing, where it has none.
    pub(super) fn short_form(&self, op: &Op, depth: usize, out: &mut impl Write) -> Result<bool, fmt::Error> {
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
            "tpu.memref_slice" if op.attributes.get("operandSegmentSizes").is_none() => {
                self.access(op, 0, out)?;
                write!(out, " : {} -> {}", self.ty(op.operands[0]), self.types(&op.results))?;
            }
            "tpu.vector_store" if op.attributes.get("operandSegmentSizes").is_none() => {
                self.vector_store(op, out)?
            }
            "tpu.assume_multiple" => self.assume_multiple(op, out)?,
            "tpu.matmul" => {
                write!(out, "{} {}", op.name, self.list(&op.operands))?;
                self.braces(&op.attributes, &[], out)?;
                write!(out, " : {} -> {}", self.types(&op.operands), self.types(&op.results))?;
            }
            "tpu.enqueue_dma" if is_local_copy(op) => {
                self.roles(op, &["source", "target", "target_semaphore"], out)?;
            }
            "tpu.wait_dma2" if op.operands.len() == 3 => self.roles(op, &["semaphore", "src", "dst"], out)?,
            "scf.if" if op.results.is_empty() => self.if_(op, depth, out)?,
            "scf.for" if op.results.is_empty() => self.for_(op, depth, out)?,
            "scf.yield" | "func.return" => self.terminator(op, out)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn constant(&self, op: &Op, out: &mut impl Write) -> fmt::Result {
        let value = op.attributes.get("value").expect("a constant has a value");
        write!(out, "arith.constant {value}")
    }

    fn compare(&self, op: &Op, predicates: &[&str], out: &mut impl Write) -> fmt::Result {
        let predicate = match op.attributes.get("predicate") {
            Some(&Attr::Integer(predicate, _)) => predicates[predicate as usize],
            other => panic!("{} without a predicate: {other:?}", op.name),
        };
        write!(out, "{} {predicate}, {}", op.name, self.list(&op.operands))?;
        self.braces(&op.attributes, &["predicate", "fastmath"], out)?;
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

    /// `name %memref[%i, %j]`, where the memref is operand number `base` and the indices follow it.
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
        let multiple = match op.attributes.get("multiple") {
            Some(Attr::Integer(multiple, _)) => multiple,
            other => panic!("{} without a multiple: {other:?}", op.name),
        };
        let value = op.operands[0];
        write!(out, "{} {}, {multiple} : {}", op.name, self.name(value), self.ty(value))
    }

    fn vector_store(&self, op: &Op, out: &mut impl Write) -> fmt::Result {
        self.access(op, 1, out)?;
        write!(out, ", {}", self.name(op.operands[0]))?;
        self.braces(&op.attributes, &[], out)?;
        let (vector, memref) = (self.ty(op.operands[0]), self.ty(op.operands[1]));
        // The comma stands before the types of the mask, of which there are none.
        write!(out, " : {memref}, {vector},")
    }

    /// `name role(%operand : type) ...`.
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

    /// A region in braces, without the empty yield that the short form implies.
    fn braced(&self, region: &Region, depth: usize, out: &mut impl Write) -> fmt::Result {
        let implied = |op: &&Op| op.name == "scf.yield" && op.operands.is_empty();
        let ops = match region.ops.last().filter(implied) {
            Some(_) => &region.ops[..region.ops.len() - 1],
            None => &region.ops,
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

/// Whether a copy stays on its device: it has a source, a target and a semaphore, and nothing else.
fn is_local_copy(op: &Op) -> bool {
    op.attributes.get("operandSegmentSizes") == Some(&Attr::I32s(vec![1, 0, 1, 1, 0, 0]))
}
