//! Branches and loops.

use super::{FunctionBuilder, IntPredicate};
use crate::{attribute::Attributes, ir::Value, types::Type};

impl FunctionBuilder {
    /// Does what `build` builds where `condition` holds.
    pub fn when(&mut self, condition: Value, build: impl FnOnce(&mut Self)) {
        let then = self.region(&[], |b, _| {
            build(b);
            b.op0("scf.yield", &[], Attributes::new());
        });
        // An absent else is an empty region, as in the generic form of the operation.
        let regions = vec![then, crate::Region::default()];
        self.op("scf.if", &[condition], &[], Attributes::new(), regions);
    }

    /// Does what `build` builds where `value` equals `constant`.
    pub fn when_equal(&mut self, value: Value, constant: usize, build: impl FnOnce(&mut Self)) {
        let constant = self.i32(constant);
        let condition = self.cmpi(IntPredicate::Eq, value, constant);
        self.when(condition, build);
    }

    /// Runs `build` for every integer from `from` up to, not including, `to`.
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
