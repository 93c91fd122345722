//! Peak memory of a function's live values, computed before it runs.

use super::{
    array::Dtype,
    program::{Compiler, is_taken},
};
use crate::{
    ir::{Op, Region},
    types::Type,
};

/// Bytes of a value in the interpreter: four per vector element, whatever its type; tensors are kept as in
/// memory.
fn bytes(ty: &Type) -> usize {
    let total = |unit: usize, shape: &[usize]| {
        shape.iter().fold(unit, |all: usize, &extent| all.saturating_mul(extent))
    };
    match ty {
        Type::Vector(shape, _) => total(4, shape),
        // One that has no number type is never computed.
        Type::Tensor(shape, _) => Dtype::of(ty).map_or(0, |dtype| total(dtype.bytes(), shape)),
        _ => 0,
    }
}

/// Splats: one number stands for all elements.
fn is_splat(op: &Op) -> bool {
    use crate::attribute::Attr;
    matches!(op.attributes.get("value"), Some(Attr::Splat(..)))
}

impl Compiler<'_> {
    /// Peak bytes of live values in a region and the regions nested in it.
    pub(super) fn peak_bytes(&self, region: &Region) -> usize {
        let live: Vec<&Op> = region.ops.iter().filter(|op| self.is_live(op)).collect();
        let last_uses = self.last_uses(region, &live);
        let sized = |value| bytes(self.ty(value));
        let mut now = region.arguments.iter().map(|&value| sized(value)).fold(0usize, usize::saturating_add);
        let mut peak = now;
        for (number, op) in live.into_iter().enumerate() {
            let inside = op.regions.iter().map(|region| self.peak_bytes(region)).max().unwrap_or(0);
            if !is_splat(op) {
                now = op.results.iter().fold(now, |all, &value| all.saturating_add(sized(value)));
            }
            peak = peak.max(now.saturating_add(inside));
            for &operand in &op.operands {
                if is_taken(op, &operand) && last_uses.get(&operand) == Some(&number) {
                    now = now.saturating_sub(sized(operand));
                }
            }
        }
        peak
    }
}
