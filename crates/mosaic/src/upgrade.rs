//! Upgrades operations of the `stable_mosaic` dialect, in which JAX serializes kernels, to the dialects that
//! they stand for, and brings the attributes of generic operations to what the custom forms parse to.
//!
//! JAX numbers the versions of the serialized dialect; the rules here cover versions 1 to 15. They look at
//! what an operation holds, not at the version, so that a module can be upgraded twice:
//!
//! | version | change |
//! |---|---|
//! | 2  | `enqueue_dma` and `sem_signal` give the number of each kind of operand |
//! | 3  | `multi_reduction` has its dimensions as a dense array |
//! | 4  | `enqueue_dma` has a priority |
//! | 5, 6 | `dynamic_gather` and `iota` have several dimensions |
//! | 7  | `wait_dma2` gives the number of each kind of operand |
//! | 8  | DMAs can be strictly ordered |
//! | 11 | stores can add |
//! | 13 | `matmul` has a hint about its left operand |
//! | 14 | DMAs and signals can name a subcore |
//! | 15 | `reinterpret_cast` gives the number of each kind of operand |

use std::borrow::Cow;

use crate::{
    attribute::{Attr, Attributes},
    ir::{Module, Op, Region},
    types::Type,
};

const PREFIX: &str = "stable_mosaic.";
const SEGMENTS: &str = "operandSegmentSizes";

/// The name of an operation without the prefix of the serialized dialect.
pub(crate) fn unversioned(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// Upgrades every operation of a module.
pub(crate) fn upgrade(module: &mut Module) {
    for function in &mut module.functions {
        upgrade_region(&mut function.body);
    }
}

fn upgrade_region(region: &mut Region) {
    for op in &mut region.ops {
        if let Some(name) = op.name.strip_prefix(PREFIX) {
            op.name = Cow::Owned(name.to_owned());
        }
        op.attributes = canonical(op);
        op.regions.iter_mut().for_each(upgrade_region);
    }
}

/// The attributes of an operation as its custom form gives them: without defaults, in their newest spelling.
fn canonical(op: &Op) -> Attributes {
    let mut attributes = match (op.name.as_ref(), op.operands.len()) {
        ("tpu.enqueue_dma", count) if op.attributes.get(SEGMENTS).is_none() => roles(count),
        _ => Attributes::new(),
    };
    for (name, value) in op.attributes.iter() {
        let (name, value) = renamed(op, name, value);
        let value = if name == SEGMENTS { segments(op, value) } else { Some(value) };
        if let Some(value) = value.filter(|value| !is_default(op, name, value)) {
            attributes = attributes.with(name, value);
        }
    }
    attributes
}

/// The kinds of operands that a DMA has, local or remote, if only their number is known.
fn roles(count: usize) -> Attributes {
    match count {
        3 => Attributes::new().with(SEGMENTS, Attr::I32s(vec![1, 0, 1, 1, 0, 0])),
        5 => Attributes::new().with(SEGMENTS, Attr::I32s(vec![1, 1, 1, 1, 1, 0])),
        _ => Attributes::new(),
    }
}

/// Renames attributes that have another name or type in older versions.
fn renamed<'a>(op: &Op, name: &'a str, value: &Attr) -> (&'a str, Attr) {
    match (op.name.as_ref(), name, value) {
        ("tpu.iota" | "tpu.dynamic_gather", "dimension", Attr::Integer(dimension, _)) => {
            match i32::try_from(*dimension) {
                Ok(dimension) => ("dimensions", Attr::I32s(vec![dimension])),
                Err(_) => (name, value.clone()),
            }
        }
        ("vector.multi_reduction", "reduction_dims", Attr::Array(items)) => {
            (name, integers(items).map_or_else(|| value.clone(), Attr::I64s))
        }
        // The custom form has the list without a type.
        ("tpu.dynamic_gather", "dimensions", Attr::Array(items)) => {
            (name, integers(items).map_or_else(|| value.clone(), Attr::I32s))
        }
        // Custom forms leave out the type of an integer, whose sign has no meaning here.
        (op, _, Attr::Integer(number, Type::Other(ty))) if op.starts_with("tpu.") && ty == "si32" => {
            (name, Attr::Integer(*number, Type::I32))
        }
        _ => (name, value.clone()),
    }
}

fn integers<T: TryFrom<i64>>(items: &[Attr]) -> Option<Vec<T>> {
    let integer = |item: &Attr| match item {
        Attr::Integer(value, _) => T::try_from(*value).ok(),
        _ => None,
    };
    items.iter().map(integer).collect()
}

/// Returns whether an attribute has its default value, which custom forms leave out.
fn is_default(op: &Op, name: &str, value: &Attr) -> bool {
    match (op.name.as_ref(), name) {
        (_, "overflowFlags") => *value == Attr::Other("#arith.overflow<none>".to_owned()),
        (_, "fastmath") => *value == Attr::Other("#arith.fastmath<none>".to_owned()),
        ("tpu.vector_store" | "tpu.store", "add") => *value == Attr::Bool(false),
        ("tpu.enqueue_dma", "priority") => *value == Attr::Integer(0, Type::I32),
        ("tpu.enqueue_dma" | "tpu.wait_dma2", "strict_ordering") => *value == Attr::Bool(false),
        ("tpu.matmul", "transpose_lhs" | "transpose_rhs" | "transpose_lhs_hint") => {
            *value == Attr::Bool(false)
        }
        _ => false,
    }
}

/// How many operands there are of each kind; `None` if the operand count alone says it.
fn segments(op: &Op, value: Attr) -> Option<Attr> {
    let Attr::I32s(counts) = &value else {
        return Some(value);
    };
    let implied = match (op.name.as_ref(), counts.as_slice()) {
        // Subcores exist on SparseCores only; without one, the older form says the same.
        ("tpu.enqueue_dma" | "tpu.wait_dma", [older @ .., 0]) if older.len() == 6 => {
            return Some(Attr::I32s(older.to_vec()));
        }
        ("tpu.sem_signal", [1, 1, 0, 0] | [1, 1, 0, 0, 0]) => true,
        ("tpu.sem_signal", [older @ .., 0]) if older.len() == 4 => {
            return Some(Attr::I32s(older.to_vec()));
        }
        ("tpu.wait_dma2", [1, 1, 1, 0, 0]) => true,
        ("tpu.vector_store", [1, 1, _, 0]) => true,
        ("tpu.vector_load" | "tpu.memref_slice", [1, _, 0]) => true,
        ("tpu.reinterpret_cast", [1, 0, 0]) => true,
        ("memref.alloca" | "memref.alloc", [0, 0]) => true,
        _ => false,
    };
    (!implied).then_some(value)
}

#[cfg(test)]
mod tests {
    use crate::parse;

    /// The first operation of a function in generic form, after the upgrade.
    fn upgraded(arguments: &str, op: &str) -> String {
        let text = format!(
            "module attributes {{stable_mosaic.version = 16 : i64}} {{\n  func.func @f({arguments}) {{\n    \
            {op}\n    return\n  }}\n}}"
        );
        let printed = parse(&text).unwrap().to_string();
        assert_eq!(parse(&printed).unwrap().to_string(), printed, "an upgrade changes nothing twice");
        printed.lines().nth(2).unwrap().trim().to_owned()
    }

    #[test]
    fn defaults_and_implied_operand_counts_are_left_out() {
        let sum = |flag: &str| {
            let op = format!(
                "%0 = \"stable_mosaic.arith.addi\"(%a, %a) {{overflowFlags = #arith.overflow<{flag}>}} \
                : (i32, i32) -> i32"
            );
            upgraded("%a: i32", &op)
        };
        assert_eq!(sum("none"), "%0 = arith.addi %a, %a : i32");
        assert!(sum("nsw").contains("overflow<nsw>"));
        let signal = |counts: &str, operands: &str, types: &str| {
            let op = format!(
                "\"stable_mosaic.tpu.sem_signal\"({operands}) \
                {{operandSegmentSizes = array<i32: {counts}>}} : ({types}) -> ()"
            );
            upgraded("%s: memref<!tpu.semaphore>, %n: i32", &op)
        };
        let memref = "memref<!tpu.semaphore>, i32";
        assert!(!signal("1, 1, 0, 0, 0", "%s, %n", memref).contains("operandSegmentSizes"));
        let remote = signal("1, 1, 1, 0, 0", "%s, %n, %n", "memref<!tpu.semaphore>, i32, i32");
        assert!(remote.contains("array<i32: 1, 1, 1, 0>"), "{remote}");
        let subcore = signal("1, 1, 0, 1, 1", "%s, %n, %n, %n", "memref<!tpu.semaphore>, i32, i32, i32");
        assert!(subcore.contains("array<i32: 1, 1, 0, 1, 1>"), "{subcore}");
    }

    #[test]
    fn attributes_of_older_versions_get_their_new_names() {
        let iota = "%0 = \"stable_mosaic.tpu.iota\"() {dimension = 1 : i32} : () -> vector<8x128xi32>";
        assert!(upgraded("", iota).contains("dimensions = array<i32: 1>"));
        let reduce = "%0 = \"stable_mosaic.vector.multi_reduction\"(%a, %b) {kind = #vector.kind<add>, \
            reduction_dims = [1 : i64]} : (vector<8x128xf32>, vector<8xf32>) -> vector<8xf32>";
        let reduce = upgraded("%a: vector<8x128xf32>, %b: vector<8xf32>", reduce);
        assert!(reduce.contains("reduction_dims = array<i64: 1>"), "{reduce}");
    }

    #[test]
    fn unknown_operations_keep_their_name_and_attributes() {
        let op = "\"stable_mosaic.tpu.from_the_future\"() {new = 3 : i32} : () -> ()";
        assert_eq!(upgraded("", op), "\"tpu.from_the_future\"() {new = 3 : i32} : () -> ()");
    }
}
