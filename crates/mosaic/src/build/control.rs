//! Branches and loops.

use super::{FunctionBuilder, IntPredicate};
use crate::{attribute::Attributes, ir::Value, types::Type};

impl FunctionBuilder {
    /// Builds an `scf.if` without an else branch.
    pub fn when(&mut self, condition: Value, build: impl FnOnce(&mut Self)) {
        let then = self.region(&[], |b, _| {
            build(b);
            b.op0("scf.yield", &[], Attributes::new());
        });
        // In the generic form, an absent else is an empty region.
        let regions = vec![then, crate::Region::default()];
        self.op("scf.if", &[condition], &[], Attributes::new(), regions);
    }

    /// Builds an `scf.if` on `value == constant`.
    pub fn when_equal(&mut self, value: Value, constant: usize, build: impl FnOnce(&mut Self)) {
        let constant = self.i32(constant);
        let condition = self.cmpi(IntPredicate::Eq, value, constant);
        self.when(condition, build);
    }

    /// Builds an `scf.for` over `from..to`.
    pub fn for_each(
        &mut self,
        name: &'static str,
        from: Value,
        to: Value,
        build: impl FnOnce(&mut Self, Value),
    ) {
        let step = self.i32(1);
        let body = self.region(&[Type::I32], |b, arguments| {
            b.name(arguments[0], name);
            build(b, arguments[0]);
            b.op0("scf.yield", &[], Attributes::new());
        });
        self.op("scf.for", &[from, to, step], &[], Attributes::new(), vec![body]);
    }
}
